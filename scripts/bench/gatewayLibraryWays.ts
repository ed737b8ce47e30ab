import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type GatewayStore, memoryStore, sqliteStore, startGateway } from '../../src/client/gateway';
import { loadEngine } from '../../src/database';
import { newId } from '../../src/kernel/ids';
import { RawGateway } from './gatewayLibraryRaw';
import type { MeasuredGateway, Seat, WayHooks } from './measuredGateway';

/** A way to be a gateway. */
export interface Way {
  readonly name: string;
  /** Resolves when the server has welcomed it. */
  attach(seat: Seat, hooks: WayHooks): Promise<MeasuredGateway>;
}

/** The ways that are compared; the first is the measure of the others. */
export const WAYS: readonly Way[] = [
  { name: 'raw stream', attach: async (seat, hooks) => await RawGateway.attach(seat, hooks) },
  { name: 'library, memoryStore', attach: async (seat, hooks) => await attachLibrary(seat, hooks, memoryStore(), () => {}) },
  { name: 'library, sqliteStore', attach: async (seat, hooks) => await attachOnDisk(seat, hooks) },
];

async function attachOnDisk(seat: Seat, hooks: WayHooks): Promise<MeasuredGateway> {
  const file = join(mkdtempSync(join(tmpdir(), 'plantroom-bench-gateway-')), 'gateway.db');
  const store = sqliteStore({ file, nativeBinding: loadEngine(dirname(file)) });
  return await attachLibrary(seat, hooks, store, () => rmSync(dirname(file), { recursive: true, force: true }));
}

async function attachLibrary({ server, key, connectionId }: Seat, hooks: WayHooks, store: GatewayStore, clean: () => void): Promise<MeasuredGateway> {
  const welcomed = Promise.withResolvers<void>();
  const loss = Promise.withResolvers<never>();
  loss.promise.catch(() => {}); // whoever waits for it is told
  const gateway = startGateway({
    address: server.address,
    apiKey: key.apiKey,
    organizationId: key.organizationId,
    ...(server.ca ? { ca: server.ca } : { insecure: true }),
    connectionId,
    gatewayId: `bench-${newId()}`,
    software: 'plantroom bench',
    store,
    whenRefused: 'stop',
    deliver: () => ({ result: 'accepted' }),
    onEvent: (event) => {
      if (event.event === 'attached') welcomed.resolve();
      else if (event.event === 'detached') loss.reject(new Error('the stream of the gateway ended', { cause: event.error })); // it would come back, and be measured with its pause
      else if (event.event === 'command_acknowledged') hooks.acknowledged(event.executionId, event.outcome === 'applied');
      else if (event.event === 'uplink_acknowledged') hooks.uplinked(event.uplinkId, event.outcome === 'stored');
    },
  });
  gateway.ended.catch((error: Error) => {
    welcomed.reject(error);
    loss.reject(error);
  });
  await welcomed.promise;
  return {
    lost: loss.promise,
    uplink: async (clientDeviceId, value) => void (await gateway.send({ clientDeviceId, payload: { kind: 'json', value } })),
    detach: async () => {
      await gateway.stop();
      clean();
    },
  };
}
