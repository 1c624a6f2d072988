// A companion extension on the protocol's official SDK, for real_sdk.rs: `node companion.mjs <folder of the SDK>`.
// Prints its port and token, then each call of a tool. Reads notifications to send from stdin, one per line.

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const sdk = (file) => import(pathToFileURL(`${process.argv[2]}/dist/esm/${file}`).href);
const { Server } = await sdk("server/index.js");
const { StreamableHTTPServerTransport } = await sdk("server/streamableHttp.js");
const { CallToolRequestSchema, ListToolsRequestSchema, isInitializeRequest } = await sdk("types.js");

const token = randomUUID();
const transports = new Map();
const say = (message) => console.log(JSON.stringify(message));
let context = { workspaceState: { openFiles: [] } };

const update = () => ({ jsonrpc: "2.0", method: "ide/contextUpdate", params: context });

async function connect() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => transports.set(id, transport),
  });
  transport.onclose = () => transports.delete(transport.sessionId);
  const server = new Server(
    { name: "companion", version: "1.0.0" },
    { capabilities: { logging: {}, tools: { listChanged: true } } },
  );
  const tool = (name) => ({ name, inputSchema: { type: "object", properties: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: ["openDiff", "closeDiff"].map(tool) }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    say({ call: params.name, args: params.arguments });
    if (params.name === "openDiff") return { content: [] };
    return { content: [{ type: "text", text: JSON.stringify({ content: "closed" }) }] };
  });
  await server.connect(transport);
  return transport;
}

async function body(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return text ? JSON.parse(text) : undefined;
}

const http = createServer(async (request, response) => {
  const { host, origin, authorization } = request.headers;
  const port = http.address().port;
  if (host !== `127.0.0.1:${port}` || origin || authorization !== `Bearer ${token}`) {
    response.writeHead(401).end();
    return;
  }
  const message = request.method === "POST" ? await body(request) : undefined;
  let transport = transports.get(request.headers["mcp-session-id"]);
  if (!transport && isInitializeRequest(message)) transport = await connect();
  if (!transport) {
    response.writeHead(400).end();
    return;
  }
  if (request.method === "GET") {
    // Handling lasts as long as the stream; it can be used once its head is sent.
    const waiting = setInterval(() => {
      if (!response.headersSent) return;
      clearInterval(waiting);
      transport.send(update());
    }, 5);
  }
  await transport.handleRequest(request, response, message);
});
http.listen(0, "127.0.0.1", () => say({ port: http.address().port, token }));

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.method === "ide/contextUpdate") context = message.params;
  for (const transport of transports.values()) transport.send({ jsonrpc: "2.0", ...message });
}
process.exit(0);
