import {
  ActuatorCommandServiceClient,
  type Command,
  type CommandDefinition,
  type CommandWarning,
  UpdateCommandRequest,
  VerificationStrategy,
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
const {
  VERIFICATION_STRATEGY_NO_VERIFICATION: UNVERIFIED,
  VERIFICATION_STRATEGY_WAIT_NEXT_UPLINK: NEXT_UPLINK,
  VERIFICATION_STRATEGY_QUERY_AFTER_ACK: QUERY,
} = VerificationStrategy;
const RECOMMENDED = { code: 'expected_sensor_states_recommended' };

type Kind = keyof typeof CONNECTIONS | 'unbound';

interface Device {
  readonly deviceId: string;
  readonly queryCommandId: string;
  /** An expected state of its sensor. */
  readonly states: { readonly sensorId: string; readonly valueTemplate: string }[];
}

describe.each(sqliteOnly())('warnings about a command, on $name', ({ createDatabase }) => {
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => ({ fixture } = made));

  /** Creates a device with a sensor, and the query command with which its state is queried. */
  async function createDevice(kind: Kind, query: TargetOptions['command'], queryExpects: boolean): Promise<Device> {
    const target = await fixture.target({
      bound: kind !== 'unbound',
      ...(kind !== 'unbound' && { connectionId: await fixture.connection(CONNECTIONS[kind]) }),
      clientDeviceId: 'a1b2c3d4e5f60718',
      expects: true,
    });
    const states = [{ sensorId: target.sensorId, valueTemplate: '1' }];
    const expectedSensorStates = queryExpects ? states : [];
    const queryCommandId = await fixture.addCommand(target.deviceId, { ...query, expectedSensorStates });
    return { deviceId: target.deviceId, queryCommandId, states };
  }

  /** Returns the warnings about a new command, which are the same when it is updated. */
  async function createWarned(
    kind: Kind,
    command: Partial<CommandDefinition>,
    { expects = false, queryExpects = false, query = {} } = {},
  ): Promise<readonly CommandWarning[]> {
    const { deviceId, queryCommandId, states } = await createDevice(kind, query, queryExpects);
    const definition = wireDefinition({
      name: 'Move',
      ...command,
      expectedSensorStates: expects ? states : [],
      ...(command.verificationStrategy === QUERY && { queryCommandId }),
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
      const [warning, ...others] = await createWarned(kind, { verificationStrategy: NEXT_UPLINK });
      expect(warning).toMatchObject(RECOMMENDED);
      expect(warning?.message).toMatch(/^wait_next_uplink without expectedSensorStates/);
      expect(others).toEqual([]);
      expect(await createWarned(kind, { verificationStrategy: NEXT_UPLINK }, { expects: true })).toEqual([]);
      expect(await createWarned(kind, { verificationStrategy: UNVERIFIED })).toEqual([]);
    },
  );

  it('recommend expected states for a query whose answer cannot be recognized', async () => {
    for (const kind of ['mqtt', 'chirpstack'] as const) {
      const [warning] = await createWarned(kind, { verificationStrategy: QUERY });
      expect(warning).toMatchObject(RECOMMENDED);
      expect(warning?.message).toMatch(/^query_after_ack without expectedSensorStates/);
      expect(await createWarned(kind, { verificationStrategy: QUERY }, { expects: true })).toEqual([]);
      expect(await createWarned(kind, { verificationStrategy: QUERY }, { queryExpects: true })).toEqual([]);
    }
    expect(await createWarned('chirpstack', { verificationStrategy: QUERY }, { query: { confirmed: true } })).toEqual(
      [],
    );
  });

  it.each([
    ['gateway', {}],
    ['mqtt_answer', {}],
    ['chirpstack', { confirmed: true }],
  ] as const)('do not concern devices that acknowledge: %s', async (kind, command) => {
    expect(await createWarned(kind, { ...command, verificationStrategy: NEXT_UPLINK })).toEqual([]);
    if (kind !== 'chirpstack') expect(await createWarned(kind, { verificationStrategy: QUERY })).toEqual([]);
  });
});
