import {
  ActuatorCommandServiceClient,
  type Command,
  UpdateCommandRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { call } from '../support/edge';
import { sqliteOnly } from '../support/engines';
import { AS_ONE, type ExecutionFixture, type TargetOptions } from '../executions/executionFixture';
import { fixtureForAll } from '../executions/executionSuite';
import { wireDefinition } from './commandFixture';

const MQTT = {
  url: 'mqtt://127.0.0.1:1',
  uplinkTopic: 'p/{clientDeviceId}/up',
  downlinkTopic: 'p/{clientDeviceId}/down',
};
const CHIRPSTACK = { url: 'mqtt://127.0.0.1:1', applicationId: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' };
const CONNECTIONS = {
  gateway: { connectorId: 'gateway' },
  mqtt: { connectorId: 'mqtt', configuration: MQTT },
  mqtt_answer: { connectorId: 'mqtt', configuration: { ...MQTT, answer: { kind: 'response_topic' } } },
  chirpstack: { connectorId: 'chirpstack', configuration: CHIRPSTACK },
} as const;
const RECOMMENDED = { code: 'expected_sensor_states_recommended' };

describe.each(sqliteOnly())('warnings about a command, on $name', ({ createDatabase }) => {
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => ({ fixture } = made));

  async function createWarned(
    kind: keyof typeof CONNECTIONS | 'unbound',
    command: TargetOptions['command'],
    { expects = false, queryExpects = false, queryConfirmed = false } = {},
  ) {
    const connectionId = kind === 'unbound' ? undefined : await fixture.connection(CONNECTIONS[kind]);
    const clientDeviceId = kind === 'chirpstack' ? Date.now().toString(16).padStart(16, '0') : 'd';
    const { deviceId, sensorId } = await fixture.target({
      bound: kind !== 'unbound',
      ...(connectionId !== undefined && { connectionId }),
      clientDeviceId,
      expects: true,
    });
    const states = [{ sensorId, valueTemplate: '1' }];
    const queryCommandId = await fixture.addCommand(deviceId, {
      confirmed: queryConfirmed,
      expectedSensorStates: queryExpects ? states : [],
    });
    const definition = wireDefinition({
      name: 'Move',
      ...command,
      expectedSensorStates: expects ? states : [],
      ...(command?.verificationStrategy === 3 && { queryCommandId }),
    });
    const client = fixture.edge.client(ActuatorCommandServiceClient);
    const request = { id: deviceId, organizationId: '', command: definition };
    const created: Command = await call(client.createCommand.bind(client), request, AS_ONE);
    const updated: Command = await call(
      client.updateCommand.bind(client),
      UpdateCommandRequest.fromPartial({ ...request, commandId: created.id }),
      AS_ONE,
    );
    const read = { id: deviceId, commandId: created.id, organizationId: '' };
    const stored: Command = await call(client.getCommand.bind(client), read, AS_ONE);
    expect(stored.warnings).toEqual([]);
    expect(updated.warnings).toEqual(created.warnings);
    return created.warnings;
  }

  it.each(['mqtt', 'chirpstack', 'unbound'] as const)(
    'recommend expected states for the next uplink: %s',
    async (kind) => {
      const [warning, ...others] = await createWarned(kind, { verificationStrategy: 2 });
      expect(warning).toMatchObject(RECOMMENDED);
      expect(warning?.message).toMatch(/^wait_next_uplink without expectedSensorStates/);
      expect(others).toEqual([]);
      expect(await createWarned(kind, { verificationStrategy: 2 }, { expects: true })).toEqual([]);
      expect(await createWarned(kind, { verificationStrategy: 1 })).toEqual([]);
    },
  );

  it('recommend expected states for a query whose answer cannot be recognized', async () => {
    for (const kind of ['mqtt', 'chirpstack'] as const) {
      const [warning] = await createWarned(kind, { verificationStrategy: 3 });
      expect(warning).toMatchObject(RECOMMENDED);
      expect(warning?.message).toMatch(/^query_after_ack without expectedSensorStates/);
      expect(await createWarned(kind, { verificationStrategy: 3 }, { expects: true })).toEqual([]);
      expect(await createWarned(kind, { verificationStrategy: 3 }, { queryExpects: true })).toEqual([]);
    }
    expect(await createWarned('chirpstack', { verificationStrategy: 3 }, { queryConfirmed: true })).toEqual([]);
  });

  it.each([
    ['gateway', {}],
    ['mqtt_answer', {}],
    ['chirpstack', { confirmed: true }],
  ] as const)('do not concern devices that acknowledge: %s', async (kind, command) => {
    expect(await createWarned(kind, { ...command, verificationStrategy: 2 })).toEqual([]);
    if (kind !== 'chirpstack') expect(await createWarned(kind, { verificationStrategy: 3 })).toEqual([]);
  });
});
