//! The help about MCP servers.

pub(super) const HELP: &str = r#"MCP: servers whose tools the model may call

Usage: pollux mcp add <name> <commandOrUrl> [args...] [options]
       pollux mcp remove <name> [--scope user|project]
       pollux mcp list
       pollux mcp enable|disable <name>
       pollux mcp test <name>
       pollux mcp tools [name]
       pollux mcp auth <name>

  add      writes a server into settings; unknown options, and everything after `--`, belong to the server
  remove   takes it out again
  list     every server and whether it can be connected to, after at most a few seconds
  enable   switches a server on or off for this user, wherever it is defined
  test     connects to one server and tells what it offers, or why not, with the last lines of its stderr
  tools    the tools of one or all servers, under the names that policies and the model use
  auth     signs in to a server on the network (OAuth), in the browser or by pasting an address

Options of `add`:
  -s, --scope user|project       whose settings (project)
  -t, --transport stdio|sse|http how it is reached (stdio; `--type` is the same)
  -e, --env KEY=value            a variable for the server; `$NAME` in the value is looked up at every start
  -H, --header "Name: value"     a header for the server
      --timeout MS               for connecting and for each request
      --trust                    its tools run without a question (counts in the user's settings only)
      --description TEXT
      --include-tools A,B        only these tools
      --exclude-tools A,B        all but these tools

Examples:
  pollux mcp add -s user -e 'GITHUB_TOKEN=$GITHUB_TOKEN' github npx -y @modelcontextprotocol/server-github
  pollux mcp add -t http docs https://example.com/mcp
  pollux mcp test github
"#;
