{
  description = "Pollux, a coding agent for the terminal, compatible with Gemini CLI";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      forEach = nixpkgs.lib.genAttrs systems;
      manifest = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;
    in
    {
      packages = forEach (system:
        let pkgs = nixpkgs.legacyPackages.${system};
        in {
          default = pkgs.rustPlatform.buildRustPackage {
            pname = "pollux";
            version = manifest.version;
            src = self;
            cargoLock.lockFile = ./Cargo.lock;
            cargoBuildFlags = [ "-p" "pollux-cli" "--bins" ];
            # They need a terminal, user namespaces and servers of others; CI runs them.
            doCheck = false;
            nativeBuildInputs = [ pkgs.installShellFiles ];
            postInstall = ''
              export HOME=$TMPDIR
              mkdir man && $out/bin/pollux man man
              installManPage man/*.1
              installShellCompletion --cmd pollux \
                --bash <($out/bin/pollux completions bash) \
                --zsh <($out/bin/pollux completions zsh) \
                --fish <($out/bin/pollux completions fish)
              # An installed gemini-cli keeps its name; the launchers are in libexec.
              mkdir -p $out/libexec/pollux
              mv $out/bin/gemini $out/bin/gemini-cli-a2a-server $out/libexec/pollux/
              ln -s $out/bin/pollux $out/libexec/pollux/pollux
            '';
            meta = {
              description = "Coding agent for the terminal, compatible with Gemini CLI";
              license = pkgs.lib.licenses.asl20;
              mainProgram = "pollux";
            };
          };
        });
    };
}
