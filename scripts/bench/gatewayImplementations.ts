import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type GatewayStore, memoryStore, sqliteStore, startGateway } from '../../src/client/gateway';
import { loadNativeModule } from '../../src/database';
import { newId } from '../../src/kernel/ids';
import { RawGateway } from './gatewayLibraryRaw';
import type { MeasuredGateway, GatewayPeer, GatewayHandlers } from './measuredGateway';

/** An implementation of a gateway. */
export interface GatewayImplementation {
  readonly name: string;
  /** Attaches; resolves when the server has sent Welcome. */
  attach(peer: GatewayPeer, hooks: GatewayHandlers): Promise<MeasuredGateway>;
}

/** The ways that are compared; the first is the measure of the others. */
export const IMPLEMENTATIONS: readonly GatewayImplementation[] = [
  { name: 'raw stream', attach: async (peer, hooks) => await RawGateway.attach(peer, hooks) },
  {
    name: 'library, memoryStore',
    attach: async (peer, hooks) => await attachLibrary(peer, hooks, memoryStore(), () => {}),
  },
  { name: 'library, sqliteStore', attach: async (peer, hooks) => await attachWithSqliteStore(peer, hooks) },
];

async function attachWithSqliteStore(peer: GatewayPeer, hooks: GatewayHandlers): Promise<MeasuredGateway> {
  const file = join(mkdtempSync(join(tmpdir(), 'plantroom-bench-gateway-')), 'gateway.db');
  const store = sqliteStore({ file, nativeBinding: loadNativeModule(dirname(file)) });
  return await attachLibrary(peer, hooks, store, () => rmSync(dirname(file), { recursive: true, force: true }));
}

async function attachLibrary(
  { server, key, connectionId }: GatewayPeer,
  hooks: GatewayHandlers,
  store: GatewayStore,
  cleanUp: () => void,
): Promise<MeasuredGateway> {
  const welcomed = Promise.withResolvers<void>();
  const loss = Promise.withResolvers<never>();
  loss.promise.catch(() => {}); // reported to whoever awaits it
  const gateway = startGateway({
    address: server.address,
    apiKey: key.apiKey,
    organizationId: key.organizationId,
    ...(server.ca ? { ca: server.ca } : { insecure: true }),
    connectionId,
    gatewayId: `bench-${newId()}`,
    software: 'plantroom bench',
    store,
    onRejected: 'stop',
    deliver: () => ({ result: 'accepted' }),
    onEvent: (event) => {
      if (event.event === 'attached') welcomed.resolve();
      else if (event.event === 'detached')
        loss.reject(new Error('the stream of the gateway ended', { cause: event.error })); // it would reconnect, and the pause would be measured too
      else if (event.event === 'command_acknowledged')
        hooks.acknowledged(event.executionId, event.outcome === 'applied');
      else if (event.event === 'uplink_acknowledged')
        hooks.uplinkAcknowledged(event.uplinkId, event.outcome === 'stored');
    },
  });
  gateway.ended.catch((error: Error) => {
    welcomed.reject(error);
    loss.reject(error);
  });
  await welcomed.promise;
  return {
    lost: loss.promise,
    uplink: async (clientDeviceId, value) =>
      void (await gateway.send({ clientDeviceId, payload: { kind: 'json', value } })),
    detach: async () => {
      await gateway.stop();
      cleanUp();
    },
  };
}
