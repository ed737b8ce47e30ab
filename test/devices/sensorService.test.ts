import { status } from '@grpc/grpc-js';
import type { DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { newId } from '../../src/kernel/ids';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

describe.each(engines())('sensors on $name', (engine) => {
  let fixture: DeviceFixture;
  let next = 0;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
  });
  beforeEach(() => {
    fixture.clock.advance(1000);
    fixture.uses.length = 0;
  });
  afterAll(async () => await fixture.stop());

  async function device(sensors: number, options: { bound?: boolean } = {}): Promise<DigitalDevice> {
    const physicalDevice =
      options.bound === false
        ? undefined
        : { clientDeviceId: `sensor-box-${(next += 1)}`, connectionId: fixture.connections[0] };
    const created = await fixture.api.create({ name: 'Box', physicalDevice });
    return sensors === 0
      ? created
      : await fixture.api.addSensors({
          id: created.id,
          sensorTemplateIds: Array.from({ length: sensors }, () => fixture.templates[0]),
        });
  }

  it('attaches one sensor per template, in order, after the existing ones', async () => {
    const [one, two] = fixture.templates;
    const first = await device(2);
    fixture.clock.advance(5);
    const after = await fixture.api.addSensors({ id: first.id, sensorTemplateIds: [two, one, two] });
    expect(after.sensors.map(({ sensorTemplateId }) => sensorTemplateId)).toEqual([one, one, two, one, two]);
    expect(after.sensors.slice(0, 2)).toEqual(first.sensors);
    expect(after).toMatchObject({ etag: '"3"', createdAt: first.createdAt });
    expect(fromTimestamp(after.updatedAt!)).toBe(fixture.clock.now());
    expect(await fixture.api.get({ id: first.id })).toEqual(after);
  });

  it('accepts built-in templates and names each template that the organization cannot see', async () => {
    const [system] = await fixture.test.database.db
      .knex('sensor_templates')
      .whereNull('organization_id')
      .limit(1)
      .pluck('id');
    const own = await device(0);
    expect((await fixture.api.addSensors({ id: own.id, sensorTemplateIds: [system] })).sensors).toHaveLength(1);
    const error = await fixture.api.addSensors.fails({
      id: own.id,
      sensorTemplateIds: ['no-such', fixture.templates[0], 'neither'],
    });
    expect(error).toMatchObject({
      reason: 'validation_failed',
      fields: ['sensorTemplateIds[0]', 'sensorTemplateIds[2]'],
    });
    const foreign = await fixture.api.create({ name: 'Theirs' }, 'org-2');
    expect(
      await fixture.api.addSensors.fails({ id: foreign.id, sensorTemplateIds: [fixture.templates[0]] }, 'org-2'),
    ).toMatchObject({ fields: ['sensorTemplateIds[0]'] });
    expect((await fixture.api.get({ id: own.id })).sensors).toHaveLength(1);
  });

  it('holds at most 500 sensors and their mappings', async () => {
    let full = await device(0);
    for (let round = 0; round < 5; round += 1)
      full = await fixture.api.addSensors({
        id: full.id,
        sensorTemplateIds: Array.from({ length: 100 }, () => fixture.templates[0]),
      });
    expect(
      await fixture.api.addSensors.fails({ id: full.id, sensorTemplateIds: [fixture.templates[0]] }),
    ).toMatchObject({
      reason: 'validation_failed',
      fields: ['sensorTemplateIds'],
    });
    const mapped = await fixture.api.setMappings({
      id: full.id,
      mappings: ids(full).map((sensorId, at) => ({ sensorId, sourcePath: `list[${at}]` })),
    });
    expect(mapped.physicalDevice!.sensorMappings.map(({ sourcePath }) => sourcePath)).toEqual(
      ids(full).map((_, at) => `list[${at}]`),
    );
    const empty = await fixture.api.removeSensors({ id: full.id, sensorIds: ids(full) });
    expect(empty).toMatchObject({ sensors: [], physicalDevice: { sensorMappings: [] } });
  });

  it('removes all named sensors with their mappings, or none of them', async () => {
    const box = await device(3);
    const other = await device(1);
    const [a, b, c] = ids(box) as [string, string, string];
    const mapped = await fixture.api.setMappings({
      id: box.id,
      mappings: [
        { sensorId: a, sourcePath: 'a' },
        { sensorId: b, sourcePath: 'b' },
      ],
    });
    const error = await fixture.api.removeSensors.fails({ id: box.id, sensorIds: [a, ids(other)[0]!, 'no-such'] });
    expect(error).toMatchObject({ reason: 'validation_failed', fields: ['sensorIds[1]', 'sensorIds[2]'] });
    expect(await fixture.api.get({ id: box.id })).toEqual(mapped);
    const after = await fixture.api.removeSensors({ id: box.id, sensorIds: [c, a] });
    expect(ids(after)).toEqual([b]);
    expect(after.physicalDevice!.sensorMappings).toEqual([mapped.physicalDevice!.sensorMappings[1]]);
    const grown = await fixture.api.addSensors({ id: box.id, sensorTemplateIds: [fixture.templates[1]] });
    expect(ids(grown)[0]).toBe(b);
  });

  it('rejects removing a sensor that a command expects a state of, or changing its template', async () => {
    const box = await device(2);
    const [a, b] = ids(box) as [string, string];
    fixture.uses.push({ sensorId: a, commandName: 'Open valve' });
    const error = await fixture.api.removeSensors.fails({ id: box.id, sensorIds: [b, a] });
    expect(error).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'sensor_in_use',
      metadata: { sensor_id: a, uses: '1' },
    });
    expect(error.message).toContain('Open valve');
    expect(
      await fixture.api.updateSensor.fails({ id: box.id, sensorId: a, sensorTemplateId: fixture.templates[1] }),
    ).toMatchObject({ reason: 'sensor_in_use' });
    expect(await fixture.api.get({ id: box.id })).toEqual(box);
    expect(
      ids(await fixture.api.updateSensor({ id: box.id, sensorId: a, sensorTemplateId: fixture.templates[0] })),
    ).toEqual([a, b]);
  });

  it('changes the template of a sensor and keeps its id and mapping', async () => {
    const box = await device(2);
    const [a, b] = ids(box) as [string, string];
    const mapped = await fixture.api.setMappings({ id: box.id, mappings: [{ sensorId: a, sourcePath: 'a' }] });
    fixture.clock.advance(9);
    const after = await fixture.api.updateSensor({ id: box.id, sensorId: a, sensorTemplateId: fixture.templates[1] });
    expect(after.sensors.map(({ id, sensorTemplateId }) => [id, sensorTemplateId])).toEqual([
      [a, fixture.templates[1]],
      [b, fixture.templates[0]],
    ]);
    expect(fromTimestamp(after.sensors[0]!.updatedAt!)).toBe(fixture.clock.now());
    expect(after.sensors[0]!.createdAt).toEqual(box.sensors[0]!.createdAt);
    expect(after.physicalDevice!.sensorMappings).toEqual(mapped.physicalDevice!.sensorMappings);
    expect(
      await fixture.api.updateSensor.fails({ id: box.id, sensorId: 'no-such', sensorTemplateId: fixture.templates[1] }),
    ).toMatchObject({ code: status.NOT_FOUND, reason: 'sensor_not_found' });
    expect(
      await fixture.api.updateSensor.fails({ id: box.id, sensorId: b, sensorTemplateId: 'no-such' }),
    ).toMatchObject({
      reason: 'validation_failed',
      fields: ['sensorTemplateId'],
    });
    expect(await fixture.sensors.countByTemplate('org-1', fixture.templates[1])).toBeGreaterThan(0);
    expect(await fixture.sensors.countByTemplate('org-2', fixture.templates[1])).toBe(0);
  });

  it('replaces all mappings, normalizes their paths and keeps the ids of sensors that stay mapped', async () => {
    const box = await device(3);
    const [a, b, c] = ids(box) as [string, string, string];
    const first = await fixture.api.setMappings({
      id: box.id,
      mappings: [
        { sensorId: a, sourcePath: 'data["relays"][0]' },
        { sensorId: b, sourcePath: 'b' },
      ],
    });
    expect(first.physicalDevice!.sensorMappings.map(({ sensorId, sourcePath }) => [sensorId, sourcePath])).toEqual([
      [a, 'data.relays[0]'],
      [b, 'b'],
    ]);
    fixture.clock.advance(3);
    const second = await fixture.api.setMappings({
      id: box.id,
      mappings: [
        { sensorId: c, sourcePath: 'b' },
        { sensorId: a, sourcePath: 'a' },
      ],
    });
    const [ofC, ofA] = second.physicalDevice!.sensorMappings;
    expect(ofA).toEqual({ ...first.physicalDevice!.sensorMappings[0], sourcePath: 'a', updatedAt: second.updatedAt });
    expect(ofC).toMatchObject({ sensorId: c, sourcePath: 'b', createdAt: second.updatedAt });
    expect(await fixture.api.get({ id: box.id })).toEqual(second);
    const both = { id: box.id, mappings: [{ sensorId: a, sourcePath: 'a' }], clearMappings: true };
    expect((await fixture.api.setMappings.fails({ id: box.id, mappings: [] })).fields).toEqual(['mappings']);
    expect((await fixture.api.setMappings.fails(both)).fields).toEqual(['clearMappings']);
    expect(await fixture.api.get({ id: box.id })).toEqual(second);
    const cleared = await fixture.api.setMappings({ id: box.id, clearMappings: true });
    expect(cleared.physicalDevice!.sensorMappings).toEqual([]);
  });

  it('reports all mapping violations, those of the request and those that depend on the device', async () => {
    const box = await device(2);
    const other = await device(1);
    const [a, b] = ids(box) as [string, string];
    const message = await fixture.api.setMappings.fails({
      id: box.id,
      mappings: [
        { sensorId: a, sourcePath: 'x' },
        { sensorId: a, sourcePath: 'x' },
        { sensorId: b, sourcePath: 'x..y' },
        { sensorId: '', sourcePath: 'z' },
      ],
    });
    expect(message.fields.toSorted()).toEqual([
      'mappings[1].sensorId',
      'mappings[1].sourcePath',
      'mappings[2].sourcePath',
      'mappings[3].sensorId',
    ]);
    const state = await fixture.api.setMappings.fails({
      id: box.id,
      mappings: [
        { sensorId: 'no-such', sourcePath: 'x' },
        { sensorId: b, sourcePath: 'y' },
        { sensorId: ids(other)[0]!, sourcePath: 'z' },
      ],
    });
    expect(state.fields).toEqual(['mappings[0].sensorId', 'mappings[2].sensorId']);
    const both = await fixture.api.setMappings.fails({
      id: box.id,
      mappings: [
        { sensorId: 'no-such', sourcePath: 'x' },
        { sensorId: b, sourcePath: 'y..' },
        { sensorId: ids(other)[0]!, sourcePath: '' },
      ],
    });
    expect(both.fields.toSorted()).toEqual([
      'mappings[0].sensorId',
      'mappings[1].sourcePath',
      'mappings[2].sensorId',
      'mappings[2].sourcePath',
    ]);
    expect(await fixture.api.get({ id: box.id })).toEqual(box);
  });

  it('reports unknown sensors and templates together with malformed ids', async () => {
    const box = await device(1);
    const added = await fixture.api.addSensors.fails({
      id: box.id,
      sensorTemplateIds: ['no-such', 'a b', 'n\0l', fixture.templates[0]],
    });
    expect(added.fields.toSorted()).toEqual(['sensorTemplateIds[0]', 'sensorTemplateIds[1]', 'sensorTemplateIds[2]']);
    expect(added.violations['sensorTemplateIds[1]']).toContain('white space');
    expect(
      (await fixture.api.addSensors.fails({ id: 'n\0l', sensorTemplateIds: ['no-such'] })).fields.toSorted(),
    ).toEqual(['id', 'sensorTemplateIds[0]']);
    const removed = await fixture.api.removeSensors.fails({ id: box.id, sensorIds: ['no-such', '', ids(box)[0]!] });
    expect(removed.fields.toSorted()).toEqual(['sensorIds[0]', 'sensorIds[1]']);
    expect((await fixture.api.removeSensors.fails({ id: newId(), sensorIds: ['no-such', ''] })).fields).toEqual([
      'sensorIds[1]',
    ]);
    const many = await fixture.api.addSensors.fails({
      id: box.id,
      sensorTemplateIds: Array.from({ length: 101 }, () => fixture.templates[0]),
    });
    expect(many.fields).toEqual(['sensorTemplateIds']);
    expect(await fixture.api.get({ id: box.id })).toEqual(box);
  });

  it('requires a physical device for mappings', async () => {
    const unbound = await device(1, { bound: false });
    const error = await fixture.api.setMappings.fails({
      id: unbound.id,
      mappings: [{ sensorId: ids(unbound)[0]!, sourcePath: 'a' }],
    });
    expect(error).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'no_physical_device' });
  });

  it('keeps all parallel changes of one device', async () => {
    const box = await device(0);
    await Promise.all(
      Array.from(
        { length: 8 },
        async () =>
          await fixture.api.addSensors({ id: box.id, sensorTemplateIds: [fixture.templates[0], fixture.templates[1]] }),
      ),
    );
    const after = await fixture.api.get({ id: box.id });
    expect(after.sensors).toHaveLength(16);
    expect(after.etag).toBe('"9"');
  });
});

function ids(device: DigitalDevice): string[] {
  return device.sensors.map(({ id }) => id);
}
