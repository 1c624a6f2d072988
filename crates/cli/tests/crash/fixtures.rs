//! Files as other releases and programs leave them among our sessions.

use std::fs;
use std::path::Path;

const LOG: &str = r#"{"sessionId":"7c0ffee0-1111-4222-8333-444444444444","projectHash":"e1","startTime":"2026-01-02T03:04:05.006Z","lastUpdated":"2026-01-02T03:04:05.006Z","kind":"main"}
{"$set":{"messages":[{"id":"d04923d38bb0f6017037e74183378ef4","timestamp":"2026-01-02T03:04:05.006Z","type":"user","content":[{"text":"<session_context>x</session_context>"}]}],"lastUpdated":"2026-01-02T03:04:05.006Z"}}
{"id":"u-1","timestamp":"2026-01-02T03:04:06.000Z","type":"user","content":[{"text":"read a.txt"}]}
{"$set":{"lastUpdated":"2026-01-02T03:04:06.000Z"}}
{"id":"g-1","timestamp":"2026-01-02T03:04:07.000Z","type":"gemini","content":"Reading it.","thoughts":[],"tokens":{"input":9,"output":2,"cached":0,"thoughts":0,"tool":0,"total":11},"model":"m"}
{"id":"g-1","timestamp":"2026-01-02T03:04:07.000Z","type":"gemini","content":"Reading it.","thoughts":[],"tokens":{"input":9,"output":2,"cached":0,"thoughts":0,"tool":0,"total":11},"model":"m","toolCalls":[{"id":"read_file__c1","name":"read_file","args":{"file_path":"a.txt"},"result":[{"functionResponse":{"id":"read_file__c1","name":"read_file","response":{"output":"hi"}}}],"status":"success","timestamp":"2026-01-02T03:04:08.000Z","resultDisplay":"","description":"a.txt","displayName":"ReadFile","renderOutputAsMarkdown":true}]}
{"id":"u-2","timestamp":"2026-01-02T03:04:08.000Z","type":"user","content":[{"functionResponse":{"id":"read_file__c1","name":"read_file","response":{"output":"hi"}}}]}
{"$set":{"lastUpdated":"2026-01-02T03:04:09.000Z"}}
"#;

/// What a resume of 0.61 leaves when nothing was typed: the same id, nothing but the context.
const STUB: &str = r#"{"sessionId":"7c0ffee0-1111-4222-8333-444444444444","projectHash":"e1","startTime":"2026-01-02T03:09:05.006Z","lastUpdated":"2026-01-02T03:09:05.006Z","kind":"main"}
{"$set":{"messages":[{"id":"d04923d38bb0f6017037e74183378ef4","timestamp":"2026-01-02T03:09:05.006Z","type":"user","content":[{"text":"<session_context>x</session_context>"}]}],"lastUpdated":"2026-01-02T03:04:05.900Z"}}
"#;

const PRETTY: &str = r#"{
  "sessionId": "0dd1e5e5-aaaa-4bbb-8ccc-dddddddddddd",
  "projectHash": "e1",
  "startTime": "2025-12-01T10:00:00.000Z",
  "lastUpdated": "2025-12-01T10:05:00.000Z",
  "messages": [
    {
      "id": "m-1",
      "timestamp": "2025-12-01T10:00:00.000Z",
      "type": "user",
      "content": "an older question"
    },
    {
      "id": "m-2",
      "timestamp": "2025-12-01T10:05:00.000Z",
      "type": "gemini",
      "content": "an older answer",
      "thoughts": [],
      "tokens": null,
      "model": "m"
    }
  ]
}"#;

const SUBAGENT: &str = r#"{"sessionId":"5ab00000-0000-4000-8000-000000000001","projectHash":"e1","startTime":"2026-01-02T03:04:05.006Z","lastUpdated":"2026-01-02T03:04:05.006Z","kind":"subagent"}
{"id":"u-9","timestamp":"2026-01-02T03:04:06.000Z","type":"user","content":[{"text":"look into it"}]}
"#;

/// The sessions among them that can be resumed, by their ids.
pub(super) const FORMS: [(&str, &str); 2] =
    [("7c0ffee0-1111-4222-8333-444444444444", LOG), ("0dd1e5e5-aaaa-4bbb-8ccc-dddddddddddd", PRETTY)];

/// Puts one file of each kind into the folder of a project's sessions.
pub(super) fn place(chats: &Path) {
    let parent = chats.join("7c0ffee0-1111-4222-8333-444444444444");
    fs::create_dir_all(&parent).unwrap();
    let files = [
        ("session-2026-01-02T03-04-7c0ffee0.jsonl", LOG),
        ("session-2026-01-02T03-09-7c0ffee0.jsonl", STUB),
        ("session-2025-12-01T10-00-0dd1e5e5.json", PRETTY),
        ("session-2026-01-02T03-05-5ab00000.jsonl", SUBAGENT),
        ("7c0ffee0-1111-4222-8333-444444444444/5ab00000-0000-4000-8000-000000000002.jsonl", SUBAGENT),
        ("session-2026-01-02T03-06-00000000.json", "{\"sessionId\": \"cut off at"),
        ("session-2026-01-02T03-07-11111111.jsonl", ""),
    ];
    for (name, text) in files {
        fs::write(chats.join(name), text).unwrap();
    }
}
