import fc from 'fast-check';
import { DomainError } from '../../src/kernel/errors';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

const SEED = 20_261_122;
const CHANGES = fc.record({
  kind: fc.constantFrom('create', 'create', 'bind', 'bind', 'configure', 'unbind', 'delete'),
  device: fc.nat(7),
  connection: fc.nat(3),
  meter: fc.nat(3), // A small range makes it likely that some are bound already.
});
type Change = typeof CHANGES extends fc.Arbitrary<infer Value> ? Value : never;

describe.each(engines())('device counts on $name', (engine) => {
  let fixture: DeviceFixture;
  let connections: string[] = [];
  const ids: string[] = [];
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
    connections = [
      fixture.connections[0],
      await fixture.addConnection(),
      await fixture.addConnection(),
      'no-such-connection',
    ];
  });
  afterAll(async () => await fixture.stop());

  it(`are exact after any sequence of operations, including parallel and failed ones (seed ${SEED})`, async () => {
    const refused: string[] = [];
    for (const batch of fc.sample(fc.array(CHANGES, { minLength: 1, maxLength: 4 }), { numRuns: 80, seed: SEED })) {
      const done = await Promise.allSettled(batch.map(async (change) => await apply(change)));
      for (const result of done) if (result.status === 'rejected') refused.push(getReason(result.reason));
      expect(await fixture.devices.countByConnection('org-1', connections)).toEqual(await countedRows());
    }
    expect([...new Set(refused)]).toEqual(
      expect.arrayContaining(['physical_device_already_bound', 'connection_not_found', 'device_not_found']),
    );
    for (const id of ids) await fixture.devices.delete('org-1', id, undefined).catch(getReason);
    expect(
      await fixture.test.database.db
        .knex('organization_counters')
        .where('organization_id', 'org-1')
        .select('name', 'value'),
    ).toEqual([{ name: 'devices', value: 0 }]);
  });

  async function apply({ kind, device, connection, meter }: Change): Promise<void> {
    const physicalDevice = {
      clientDeviceId: `m${meter}`,
      connectionId: connections[connection] ?? '',
      configuration: undefined,
    };
    if (kind === 'create')
      return void ids.push((await fixture.devices.create('org-1', { name: 'Device', physicalDevice })).id);
    const id = ids.at(-1 - device) ?? 'none-yet';
    if (kind === 'delete') return void (await fixture.devices.delete('org-1', id, undefined));
    const patch = {
      bind: physicalDevice,
      configure: { clientDeviceId: undefined, connectionId: undefined, configuration: {} },
      unbind: null,
    };
    const before = kind === 'configure' ? (await fixture.devices.cache.get('org-1', id)).physicalDevice : undefined;
    if (kind === 'configure' && !before) return;
    await fixture.devices.update(
      'org-1',
      id,
      { name: undefined, dataSendingInterval: undefined, physicalDevice: patch[kind] },
      undefined,
    );
  }

  async function countedRows(): Promise<Map<string, number>> {
    const rows = await fixture.test.database.db
      .knex('physical_devices')
      .select<{ connection_id: string }[]>('connection_id');
    return new Map(
      connections
        .map((id) => [id, rows.filter((row) => row.connection_id === id).length] as const)
        .filter(([, count]) => count > 0),
    );
  }
});

function getReason(error: unknown): string {
  if (error instanceof DomainError) return error.reason;
  throw error;
}
