import type { ConnectorKind } from '../../../src/connections';
import { isFinal } from '../../../src/executions';
import type { Execution } from '../../../src/gen/actuator_command/v2/actuator_command_service';
import { newId } from '../../../src/kernel/ids';
import { sqliteOnly } from '../../support/engines';
import { type ExecutionFixture, getName, type Target, untilEvent, untilFinal } from '../executionFixture';
import { fixtureForAll } from '../executionSuite';
import { ChirpStackField, chirpStackConfiguration } from './chirpStackField';
import { type FieldCommand, MqttField, mqttConfiguration } from './mqttField';
import { SiteBroker } from './siteBroker';

const KINDS = ['mqtt', 'mqtt_answer', 'chirpstack', 'chirpstack_confirmed'] as const satisfies readonly ConnectorKind[];
const STRATEGIES = { no_verification: 1, wait_next_uplink: 2, query_after_ack: 3 } as const;

type Kind = (typeof KINDS)[number];
type Strategy = keyof typeof STRATEGIES;

/** The outcome of an execution: its state, its detail and the evidence for it. */
type End = readonly [state: string, detail: string, evidence?: string];

interface Case {
  readonly kind: Kind;
  readonly strategy: Strategy;
  readonly expects: boolean;
}

const CASES: readonly Case[] = KINDS.flatMap((kind) =>
  (Object.keys(STRATEGIES) as Strategy[]).flatMap((strategy) =>
    [true, false].map((expects) => ({ kind, strategy, expects })),
  ),
);
const hasAnswers = (kind: Kind): boolean => kind === 'mqtt_answer' || kind === 'chirpstack_confirmed';
const isMqtt = (kind: Kind): boolean => kind.startsWith('mqtt');

/** The outcome when all possible evidence arrives. */
function getConfirmedEnd({ kind, strategy, expects }: Case): End {
  if (strategy !== 'no_verification' && expects) return ['converged', '', 'sensor'];
  // Without expected states no uplink can be recognized as the answer to the query.
  if (strategy === 'query_after_ack')
    return hasAnswers(kind) ? ['accepted_no_l4', '', 'query'] : ['unconfirmed', 'query_timeout'];
  if (hasAnswers(kind)) return ['accepted_no_l4', '', 'native_ack'];
  return strategy === 'wait_next_uplink' ? ['accepted_no_l4', '', 'implicit_uplink'] : ['unconfirmed', ''];
}

/** The outcome when the command was delivered and then no evidence arrived. */
function getSilentEnd({ kind, strategy, expects }: Case): End {
  if (strategy === 'no_verification') return ['unconfirmed', hasAnswers(kind) ? 'ack_timeout' : ''];
  if (expects) return ['unconfirmed', 'verification_timeout'];
  return ['unconfirmed', hasAnswers(kind) || strategy === 'wait_next_uplink' ? 'ack_timeout' : 'query_timeout'];
}

/** The outcome when the device, or the network on its behalf, rejected the command. */
function getRejectedEnd({ kind, strategy, expects }: Case): End {
  if (isMqtt(kind)) return ['protocol_rejected', 'jammed'];
  return strategy !== 'no_verification' && expects
    ? ['unconfirmed', strategy === 'wait_next_uplink' ? 'verification_mismatch' : 'verification_timeout']
    : ['unconfirmed', 'no_ack'];
}

describe.each(sqliteOnly())('the outcome of an execution over a broker, on $name', ({ createDatabase }) => {
  let fixture: ExecutionFixture;
  let broker: SiteBroker;
  let mqtt: MqttField;
  let chirpStack: ChirpStackField;
  const connections = new Map<Kind, string>();

  fixtureForAll(createDatabase, (made) => ({ fixture } = made));
  beforeAll(async () => {
    broker = await SiteBroker.start();
    mqtt = await MqttField.start(broker.url);
    chirpStack = await ChirpStackField.start(broker.url, fixture.clock);
    connections.set(
      'mqtt',
      await fixture.connection({ connectorId: 'mqtt', configuration: mqttConfiguration(broker.url, false) }),
    );
    connections.set(
      'mqtt_answer',
      await fixture.connection({
        connectorId: 'mqtt',
        configuration: { ...mqttConfiguration(broker.url, true), clientId: 'with-answers' },
      }),
    );
    const lorawan = await fixture.connection({
      connectorId: 'chirpstack',
      configuration: chirpStackConfiguration(broker.url),
    });
    connections.set('chirpstack', lorawan).set('chirpstack_confirmed', lorawan);
    for (const id of connections.values()) await fixture.untilConnected(id);
  });
  afterAll(async () => {
    await mqtt.stop();
    await chirpStack.stop();
    await broker.stop();
  });

  const getField = (kind: Kind): MqttField | ChirpStackField => (isMqtt(kind) ? mqtt : chirpStack);

  async function createTarget({ kind, strategy, expects }: Case): Promise<Target> {
    const id = newId().replaceAll('-', '');
    const clientDeviceId = isMqtt(kind) ? `valve-${id}` : id.slice(-16);
    if (!isMqtt(kind)) chirpStack.server.addDevice(clientDeviceId);
    const sent = {
      directPayload: '{"id": "{{execution.id}}"}',
      fPort: isMqtt(kind) ? undefined : 10,
      confirmed: kind === 'chirpstack_confirmed',
    };
    const target = await fixture.target({
      connectionId: connections.get(kind) ?? '',
      clientDeviceId,
      levelPath: getField(kind).levelPath,
      expects,
      command: sent,
    });
    const queryCommandId = strategy === 'query_after_ack' ? await fixture.addCommand(target.deviceId, sent) : undefined;
    const expectedSensorStates = expects ? [{ sensorId: target.sensorId, valueTemplate: '21' }] : [];
    return {
      ...target,
      commandId: await fixture.addCommand(target.deviceId, {
        ...sent,
        verificationStrategy: STRATEGIES[strategy],
        queryCommandId,
        expectedSensorStates,
      }),
    };
  }

  async function waitForEnd(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(fixture.executions, executionId);
    const { state, detail, evidence } = (await fixture.executions.service.get('org-1', executionId)).execution;
    return evidence === undefined ? [state, detail] : [state, detail, evidence];
  }

  /** Advances the clock until the execution has ended. */
  async function advanceUntilEnd(executionId: string): Promise<readonly unknown[]> {
    while (!isFinal((await fixture.executions.service.get('org-1', executionId)).execution.state)) {
      fixture.clock.advance(600_000);
      await fixture.executions.deadlines.sweep();
    }
    return await waitForEnd(executionId);
  }

  it.each(CASES)('$kind $strategy expecting $expects: all evidence arrives', async (one) => {
    const field = getField(one.kind);
    const target = await createTarget(one);
    const { clientDeviceId } = target;
    const { executionId } = await fixture.execute(target);
    const executeOnDevice = async (count: number, level: number): Promise<void> => {
      const command = await field.command(clientDeviceId, count);
      fixture.clock.advance(1000);
      await field.deliver(command);
      fixture.clock.advance(1000);
      if (hasAnswers(one.kind)) await field.answer(command, true, { level });
    };
    const isQueried = one.strategy === 'query_after_ack';
    await executeOnDevice(1, isQueried ? 20 : 21);
    if (isQueried) await executeOnDevice(2, 21);
    if (one.strategy !== 'no_verification') await field.publishUplink(clientDeviceId, { level: 21 });
    const end = getConfirmedEnd(one);
    expect(end[1] === 'query_timeout' ? await advanceUntilEnd(executionId) : await waitForEnd(executionId)).toEqual(
      end,
    );
  });

  it.each(CASES)('$kind $strategy expecting $expects: delivered, then silence', async (one) => {
    const { executionId } = await delivered(one);
    expect(await advanceUntilEnd(executionId)).toEqual(getSilentEnd(one));
  });

  it.each(CASES.filter(({ kind }) => hasAnswers(kind)))(
    '$kind $strategy expecting $expects: the command is rejected',
    async (one) => {
      const { executionId, command } = await delivered(one);
      fixture.clock.advance(1000);
      await getField(one.kind).answer(command, false, { level: 20 });
      await untilEvent(fixture.executions, executionId, isMqtt(one.kind) ? 'negative' : 'no_answer');
      const end = getRejectedEnd(one);
      // The uplink of the same frame may still be on its way, so the clock does not advance before it arrives.
      expect(
        end.includes('verification_mismatch') ? await waitForEnd(executionId) : await advanceUntilEnd(executionId),
      ).toEqual(end);
    },
  );

  it.each(CASES)('$kind $strategy expecting $expects: no sign of delivery', async (one) => {
    const target = await createTarget(one);
    if (isMqtt(one.kind)) broker.hold('/command');
    const { executionId } = await fixture.execute(target);
    await fixture.until(executionId, 'in_transit');
    if (isMqtt(one.kind)) await broker.untilHeld(1);
    else await chirpStack.server.until(() => chirpStack.server.getQueue(target.clientDeviceId).length > 0);
    expect(await advanceUntilEnd(executionId)).toEqual(['unconfirmed', 'delivery_unconfirmed']);
    broker.release();
  });

  it.each(CASES.filter(({ kind }) => !isMqtt(kind)))(
    '$kind $strategy expecting $expects: the device sends only after the deadline',
    async (one) => {
      const target = await createTarget(one);
      const { executionId, deadlineAt } = await executed(target);
      await chirpStack.server.until(() => chirpStack.server.getQueue(target.clientDeviceId).length > 0);
      fixture.clock.advance((deadlineAt ?? 0) - fixture.clock.now());
      await chirpStack.publishUplink(target.clientDeviceId, { level: 20 });
      expect(await waitForEnd(executionId)).toEqual(['transport_unreachable', 'expired']);
    },
  );

  async function delivered(one: Case): Promise<{ executionId: string; command: FieldCommand }> {
    const target = await createTarget(one);
    const { executionId } = await fixture.execute(target);
    const command = await getField(one.kind).command(target.clientDeviceId, 1);
    fixture.clock.advance(1000);
    await getField(one.kind).deliver(command);
    await untilEvent(fixture.executions, executionId, 'transport_ok');
    return { executionId, command };
  }

  async function executed(target: Target): Promise<{ executionId: string; deadlineAt: number | undefined }> {
    const { executionId } = await fixture.execute(target);
    const execution: Execution = await fixture.until(executionId, 'in_transit');
    expect(getName(execution.state)).toBe('in_transit');
    return {
      executionId,
      deadlineAt: (await fixture.executions.service.get('org-1', executionId)).execution.tDelivery,
    };
  }
});
