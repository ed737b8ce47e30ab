import type { UplinkMessage } from '../../src/connections';
import { newId } from '../../src/kernel/ids';
import type { ValueType } from '../../src/sensorTemplates';
import type { QueryFixture } from './queryFixture';

/** A device of org-1 with one sensor per path, by default of numbers. Its uplinks go through the complete pipeline. */
export class SendingDevice {
  private constructor(
    private readonly fixture: QueryFixture,
    readonly deviceId: string,
    private readonly clientDeviceId: string,
    readonly sensorIds: readonly string[],
  ) {}

  /** Creates the device. */
  static async create(
    fixture: QueryFixture,
    paths: readonly string[],
    valueType: ValueType = 'number',
  ): Promise<SendingDevice> {
    const { api, connections } = fixture.devices;
    const template = await fixture.template(valueType);
    const clientDeviceId = newId();
    const { id } = await api.create({
      name: clientDeviceId,
      physicalDevice: { clientDeviceId, connectionId: connections[0] },
    });
    const { sensors } = await api.addSensors({ id, sensorTemplateIds: paths.map(() => template) });
    const sensorIds = sensors.map((sensor) => sensor.id);
    await api.setMappings({
      id,
      mappings: paths.map((sourcePath, i) => ({ sensorId: sensorIds[i] ?? '', sourcePath })),
    });
    return new SendingDevice(fixture, id, clientDeviceId, sensorIds);
  }

  /** Sends an uplink now and resolves when it is stored. */
  async send(value: Readonly<Record<string, unknown>>, overrides: Partial<UplinkMessage> = {}): Promise<void> {
    const { clock, connections, pipeline } = this.fixture.devices;
    const identity = { kind: 'id', uplinkId: newId() } as const;
    const base = {
      organizationId: 'org-1',
      connectionId: connections[0],
      clientDeviceId: this.clientDeviceId,
      identity,
      receivedAt: clock.now(),
      time: undefined,
      clock: 'gw-1',
      fPort: undefined,
    };
    const outcome = await pipeline.handle({ ...base, payload: { kind: 'json', value }, ...overrides });
    if (outcome.outcome !== 'stored') throw new Error(JSON.stringify(outcome));
  }
}
