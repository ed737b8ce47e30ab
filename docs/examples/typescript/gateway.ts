// A small gateway with one heating valve behind it, `valve-1`. No command is executed twice, and no stored uplink is lost.
//
//   node dist/gateway.js --connection ID --store gateway.db
//
// Ctrl-C or SIGTERM stops it cleanly.
import { setInterval } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  sqliteStore,
  startGateway,
  type DeliveredCommand,
  type DeliveryResult,
  type GatewayUplink,
} from 'plantroom-client/gateway';
import { serverFlags, serverOf } from './server.js';

const { values: flags } = parseArgs({
  options: {
    ...serverFlags,
    connection: { type: 'string' },
    store: { type: 'string', default: 'gateway.db' },
    every: { type: 'string', default: '10' },
  },
});
if (!flags.connection) throw new Error('give --connection: the id of a connection of type gateway');

const valve = { position: 0 };

/** Delivers a command to its device. Called once per command. The library stores the command before and the result until it is acknowledged. */
function deliver(command: DeliveredCommand): DeliveryResult {
  if (command.clientDeviceId !== 'valve-1')
    return { result: 'refused', code: 'unknown_device', message: `unknown device ${command.clientDeviceId}` };
  const params = command.payload.kind === 'json' ? (command.payload.value as { readonly position?: unknown }) : {};
  if (typeof params.position !== 'number')
    return { result: 'rejected', code: 'bad_position', message: 'position must be a number' };
  valve.position = params.position;
  return { result: 'accepted' };
}

/** Yields the state of the valve regularly. The library stores each uplink until it is acknowledged. */
async function* readings(): AsyncGenerator<GatewayUplink> {
  for await (const _ of setInterval(Number(flags.every) * 1000, undefined, { ref: false }))
    yield { clientDeviceId: 'valve-1', payload: { kind: 'json', value: { ...valve } } };
}

const gateway = startGateway({
  ...serverOf(flags),
  connectionId: flags.connection,
  software: 'small-gateway/1',
  store: sqliteStore(flags.store),
  deliver,
  uplinks: readings(),
  onEvent: ({ event, ...facts }) => console.log(event, JSON.stringify(facts)),
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void gateway.stop());
await gateway.ended;
