//! The help text of `pollux memory`.

pub(super) const HELP: &str = r#"Durable memory: what was said and learned in earlier sessions, found again

Usage: pollux memory enable|disable
       pollux memory status [--json]
       pollux memory index [--force] [--json]
       pollux memory search QUERY… [--source memory|sessions] [--mode v2|seed] [--limit N] [--unassigned]
                                   [--explain] [--json]
       pollux memory get PATH [--lines A-B] [--json]
       pollux memory learnings [--json]
       pollux memory forget --path PATH|--session ID|--query WORDS [--all-workspaces|--unassigned] [--yes] [--json]
       pollux memory adopt FOLDER
       pollux memory doctor [--json]
       pollux memory export [--unassigned]
       pollux memory model install NAME|FOLDER
       pollux memory model list [--json]

  enable     remember from now on, in your own settings (`memory.enabled`); off until then
  disable    stop; what is there stays until you forget it
  status     what is kept where, and what makes the vectors
  index      bring the index up to date; --force makes it anew
  search     the best passages of notes (MEMORY.md, memory.md, memory/**/*.md) and of earlier sessions
  get        a note by its path, or some of its lines
  learnings  what was learned about your wishes (LEARNINGS.md, which you may edit)
  forget     remove every derived trace; shows what goes and asks first
  adopt      take over what this workspace remembered before its folder was moved from FOLDER
  doctor     look for what is wrong; exit 1 if something is
  export     everything as one JSON document on stdout
  model      small embedding models that run on this machine, without a network

Every workspace has a memory of its own; `memory.shareAcrossWorkspaces` lets all of them find everything.

Options:
      --agent <name>       use this agent's memory, instead of `memory.agent` (main)
      --source <name>      only notes (memory) or only sessions
      --mode <name>        v2, or seed for gimli's ranking
      --limit <n>          at most so many passages
      --all-workspaces     forget in every workspace of the agent
      --unassigned         what comes from no known workspace, as in an index of an earlier version
      --explain            what each score is made of
      --lines <a-b>        the lines from a to b
      --force              read and embed everything again
  -y, --yes                do not ask; needed where there is no terminal
      --json               for programs

Without an embedding model or a key for one, search goes by words and says so.

Environment:
  GIMLI_STATE_DIR              where everything is kept, instead of ~/.gimli
  GIMLI_SESSION_CACHE_TTL_MS   how long the list of sessions is held in memory (45000)
  OPENAI_API_KEY, GEMINI_API_KEY   the key of the embedding service, where one is used

Examples:
  pollux memory enable
  pollux memory search why did we drop the cache
  pollux memory get memory/2026-03-01.md --lines 10-40
  pollux memory forget --query "project falcon"
"#;
