// Drives an A2A server with the public JavaScript client of version 0.3, for crates/cli/tests/a2a/peers.rs.
//
// usage: node a2a_client.mjs MODULES URL TOKEN JSONRPC|HTTP+JSON
//
// MODULES is the folder with the installed package. The model must answer the prompts in this order: a thought, a text
// and a call that lists a folder; "Nothing"; a shell command; "done"; and last nothing at all. Prints one line per step;
// a step that fails throws.

import { createRequire } from 'node:module';
import { randomUUID } from 'node:crypto';

const [modules, url, token, transport] = process.argv.slice(2);
const { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } = createRequire(
  `${modules}/`,
)('@a2a-js/sdk/client');

const fetchImpl = (address, init = {}) =>
  fetch(address, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } });
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
    preferredTransports: [transport],
  }),
);
const client = await factory.createFromUrl(url);
console.log(`card ${(await client.getAgentCard()).name}`);

const message = (part, taskId, configuration) => ({
  message: { kind: 'message', role: 'user', messageId: randomUUID(), parts: [part], ...(taskId && { taskId }) },
  ...(configuration && { configuration }),
});
const text = (words) => ({ kind: 'text', text: words });

// What Gemini CLI's clients look at: the kind of an update, and the status of its call or task.
const kind = (event) => {
  if (event.kind !== 'status-update') return event.kind === 'task' ? `task ${event.status.state}` : event.kind;
  const status = event.status.message?.parts[0]?.data?.status ?? event.status.state;
  return `${event.metadata.coderAgent.kind} ${status}${event.final ? ' final' : ''}`;
};
const read = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};
const kinds = (events) => events.map(kind).filter((it, index, all) => it !== all[index - 1]).join(', ');
const said = (task) => task.status.message.parts[0].text;

const first = await read(client.sendMessageStream(message(text('what is here?'))));
console.log(`stream ${kinds(first)}`);
const id = first[0].id;

const got = await client.getTask({ id, historyLength: 1 });
console.log(`get ${got.status.state} ${got.history.map((it) => it.role)}: ${said(got)}`);

const asked = await read(client.sendMessageStream(message(text('run it'), id)));
console.log(`asked ${kinds(asked.slice(-3))}`);
const { request } = asked.at(-2).status.message.parts[0].data;
const answer = { kind: 'data', data: { callId: request.callId, outcome: 'proceed_once' } };
const approved = await client.sendMessage(message(answer, id));
console.log(`approved ${approved.status.state}: ${said(approved)}`);

const slow = await client.sendMessage(message(text('count'), undefined, { blocking: false }));
console.log(`not blocked ${['submitted', 'working'].includes(slow.status.state)}`);
const subscription = client.resubscribeTask({ id: slow.id });
const opening = (await subscription.next()).value;
console.log(`subscribed ${opening.kind} ${opening.id === slow.id}`);
console.log(`cancel ${(await client.cancelTask({ id: slow.id })).id === slow.id}`);
console.log(`cancelled ${kind((await read(subscription)).at(-1))}`);

const refused = async (what, call) => {
  try {
    await call();
  } catch (error) {
    console.log(`${what} refused ${error.constructor.name}`);
    return;
  }
  throw new Error(`${what} was not refused`);
};
await refused('unknown task', () => client.getTask({ id: randomUUID() }));
await refused('second cancel', () => client.cancelTask({ id: slow.id }));
await refused('message to a task that is over', () => client.sendMessage(message(text('more'), slow.id)));
