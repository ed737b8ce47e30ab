import { status } from '@grpc/grpc-js';
import {
  AttachRequest,
  type CommandReceived,
  type CommandResult,
  CommandResultCode,
  CommandSnapshotStatus,
  ResultOutcome,
  type Uplink,
  UplinkOutcome,
} from '../../src/gen/gateway/v1/gateway_service';
import { ConnectionState } from '../../src/gen/connection/connection_service';
import type { EvidenceOutcome, UplinkOutcome as Stored } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { openAttachFixture, type AttachFixture } from './attachFixture';
import { gate, type Gate, getUplinkId } from './fakeEvents';
import type { GatewayClient } from './gatewayClient';

const UNAVAILABLE = new DomainError('unavailable', 'database_unavailable', 'the database is away; try again');
const STORED: Stored = { outcome: 'stored' };

describe('messages of an attached gateway', () => {
  let fixture: AttachFixture;
  let gateway: GatewayClient;
  beforeEach(async () => {
    fixture = await openAttachFixture();
    gateway = fixture.open();
    await gateway.attach({ connectionId: fixture.connection.id });
  });
  afterEach(async () => await fixture.stop());

  describe('uplinks', () => {
    it('are forwarded completely and acknowledged only after they are stored', async () => {
      const stored = gate<Stored>();
      fixture.events.onUplink = async () => await stored.promise;
      gateway.uplink('u1', { clientDeviceId: ' valve 1 ', time: { seconds: 5, nanos: 6_000_000 }, fPort: 7 });
      gateway.uplink('u1', { payload: { $case: 'bytes', value: Buffer.from([1, 2]) } });
      gateway.uplink('', {});
      await fixture.events.until(() => fixture.events.uplinks.length === 2);
      expect(fixture.events.uplinks).toEqual([
        {
          organizationId: 'org-1',
          connectionId: fixture.connection.id,
          identity: { kind: 'id', uplinkId: 'u1' },
          clientDeviceId: 'valve 1',
          receivedAt: expect.closeTo(fixture.clock.now(), 1) as number,
          time: 5006,
          timeSource: 'gateway',
          clock: `${fixture.connection.id}/gateway-a`,
          payload: { kind: 'json', value: { t: 21.5 } },
          fPort: 7,
        },
        expect.objectContaining({
          clientDeviceId: 'device-1',
          time: undefined,
          payload: { kind: 'bytes', bytes: Buffer.from([1, 2]) },
          fPort: undefined,
        }),
      ]);
      expect(await gateway.next('uplinkAck')).toMatchObject({
        uplinkId: '',
        outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED,
      }); // The later uplink overtakes the first: no other one was acknowledged.
      stored.open(STORED);
      expect(await gateway.next('uplinkAck')).toEqual({
        uplinkId: 'u1',
        outcome: UplinkOutcome.UPLINK_OUTCOME_STORED,
        reason: '',
      });
    });

    it('are answered with the result of the handler', async () => {
      const outcomes: Record<string, Stored> = {
        again: { outcome: 'duplicate' },
        bad: { outcome: 'rejected', reason: 'too_odd' },
      };
      fixture.events.onUplink = async (message) => outcomes[getUplinkId(message)] ?? STORED;
      gateway.uplink('again');
      expect(await gateway.next('uplinkAck')).toEqual({
        uplinkId: 'again',
        outcome: UplinkOutcome.UPLINK_OUTCOME_DUPLICATE,
        reason: '',
      });
      gateway.uplink('bad');
      expect(await gateway.next('uplinkAck')).toEqual({
        uplinkId: 'bad',
        outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED,
        reason: 'too_odd',
      });
    });

    it.each<[string, Partial<Uplink>, string]>([
      ['an empty id', { uplinkId: '' }, 'uplink_id_invalid'],
      ['a long id', { uplinkId: 'x'.repeat(65) }, 'uplink_id_invalid'],
      ['NUL in the id', { uplinkId: 'a\u0000b' }, 'uplink_id_invalid'],
      ['no device', { clientDeviceId: '  ' }, 'client_device_id_invalid'],
      ['a long device id', { clientDeviceId: 'x'.repeat(256) }, 'client_device_id_invalid'],
      ['no payload', { payload: undefined }, 'payload_missing'],
      ['large JSON', { payload: { $case: 'json', value: { text: 'x'.repeat(65_536) } } }, 'payload_too_large'],
      ['large bytes', { payload: { $case: 'bytes', value: Buffer.alloc(65_537) } }, 'payload_too_large'],
      ['JSON of 33 levels', { payload: { $case: 'json', value: nested(33) } }, 'payload_too_deep'],
      ['JSON of 80 levels', { payload: { $case: 'json', value: nested(80) } }, 'payload_unreadable'],
      ['an impossible time', { time: { seconds: 1e12, nanos: 0 } }, 'time_invalid'],
      ['a time beyond 2^53', { time: { seconds: (2n ** 62n) as never, nanos: 0 } }, 'time_invalid'],
      ['a negative port', { fPort: -1 }, 'f_port_invalid'],
    ])('with %s are rejected, and the stream stays open', async (_, fields, reason) => {
      gateway.uplink(fields.uplinkId ?? 'poison', fields);
      expect(await gateway.next('uplinkAck')).toEqual({
        uplinkId: fields.uplinkId ?? 'poison',
        outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED,
        reason: expect.stringContaining(`${reason}: `),
      });
      expect(fixture.events.uplinks).toEqual([]);
      expect(await fixture.status()).toMatchObject({
        state: ConnectionState.CONNECTION_STATE_DEGRADED,
        warnings: ['uplinks_rejected'],
        dataWarnings: [{ count: 1, topic: '', reason: expect.stringContaining(`${reason}: `) as string }],
      });
      gateway.uplink('good', { payload: { $case: 'json', value: nested(32) } });
      expect(await gateway.next('uplinkAck')).toMatchObject({
        uplinkId: 'good',
        outcome: UplinkOutcome.UPLINK_OUTCOME_STORED,
      });
    });

    it.each<[string, Partial<Uplink>, string]>([
      ['the device', { clientDeviceId: '#' }, 'client_device_id_invalid'],
      ['a value', { payload: { $case: 'json', value: { deep: ['#'] } } }, 'payload_invalid'],
      ['a name', { payload: { $case: 'json', value: { deep: { '#': 1 } } } }, 'payload_invalid'],
    ])('with text that is not UTF-8 in %s are rejected, and the stream stays open', async (_, fields, reason) => {
      const payload = { $case: 'json', value: {} } as const;
      const value = { uplinkId: 'u1', clientDeviceId: 'd', time: undefined, payload, fPort: undefined, ...fields };
      gateway.sendBytes(notUtf8({ $case: 'uplink', value }));
      const rejected = { uplinkId: 'u1', outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED };
      expect(await gateway.next('uplinkAck')).toEqual({ ...rejected, reason: expect.stringContaining(`${reason}: `) });
      expect(fixture.events.uplinks).toEqual([]);
    });

    it('of one device are stored in order and do not delay those of others', async () => {
      const slow = gate<Stored>();
      fixture.events.onUplink = async (message) => (getUplinkId(message) === 'a1' ? await slow.promise : STORED);
      gateway.uplink('a1', { clientDeviceId: 'a' });
      gateway.uplink('a2', { clientDeviceId: 'a' });
      gateway.uplink('b1', { clientDeviceId: 'b' });
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'b1' });
      expect(fixture.events.uplinks.map(getUplinkId)).toEqual(['a1', 'b1']);
      slow.open(STORED);
      expect([await gateway.next('uplinkAck'), await gateway.next('uplinkAck')]).toMatchObject([
        { uplinkId: 'a1' },
        { uplinkId: 'a2' },
      ]);
    });

    it('are not read while 64 are being stored', async () => {
      const open: Gate<Stored>[] = [];
      fixture.events.onUplink = async () => {
        const waiting = gate<Stored>();
        open.push(waiting);
        return await waiting.promise;
      };
      for (let n = 0; n < 200; n += 1) gateway.uplink(`u${n}`, { clientDeviceId: `d${n}` });
      await fixture.events.until(() => open.length === 64);
      await fixture.status(); // After a complete call there are no more of them.
      expect(open).toHaveLength(64);
      for (let at = 0; at < 200; at += 1) {
        await fixture.events.until(() => open.length > at);
        open[at]?.open(STORED);
        await gateway.next('uplinkAck');
      }
    });

    it('are not acknowledged while the database is unavailable; the stream ends, so that they are sent again', async () => {
      fixture.events.onUplink = async () => await Promise.reject(UNAVAILABLE);
      gateway.uplink('u1');
      expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'database_unavailable' });
      expect(fixture.log.of('gateway.message_failed')).toMatchObject([
        { uplink_id: 'u1', connection_id: fixture.connection.id },
      ]);
      await expect(gateway.next('uplinkAck')).rejects.toThrow('ended');
    });

    it('that fail for an unknown reason are not acknowledged, and the stream stays open', async () => {
      fixture.events.onUplink = async (message) =>
        getUplinkId(message) === 'odd' ? await Promise.reject(new Error('a bug')) : STORED;
      gateway.uplink('odd');
      gateway.uplink('good');
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'good' });
      expect(fixture.log.of('gateway.message_failed')).toMatchObject([{ uplink_id: 'odd' }]);
    });
  });

  describe('results', () => {
    it.each<[CommandResultCode, object]>([
      [CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, { kind: 'ack', code: '', message: '' }],
      [CommandResultCode.COMMAND_RESULT_CODE_REJECTED, { kind: 'negative', code: 'rejected' }],
      [CommandResultCode.COMMAND_RESULT_CODE_FAILED, { kind: 'negative', code: 'failed' }],
      [CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER, { kind: 'no_answer', code: 'no_answer' }],
      [CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE, { kind: 'unreachable', code: 'unreachable' }],
      [CommandResultCode.COMMAND_RESULT_CODE_EXPIRED, { kind: 'unreachable', code: 'expired' }],
      [CommandResultCode.COMMAND_RESULT_CODE_REFUSED, { kind: 'refused', code: 'refused' }],
    ])('%s become evidence', async (result, evidence) => {
      gateway.result('e1', result);
      expect(await gateway.next('commandResultAck')).toEqual({
        executionId: 'e1',
        outcome: ResultOutcome.RESULT_OUTCOME_APPLIED,
        reason: '',
      });
      gateway.result('e1', result, { code: 'E7', message: 'stuck', time: { seconds: 9, nanos: 0 } });
      await gateway.next('commandResultAck');
      expect(fixture.events.evidences).toMatchObject([
        {
          organizationId: 'org-1',
          connectionId: fixture.connection.id,
          executionId: 'e1',
          source: 'gateway:gateway-a',
          evidence: { ...evidence, time: undefined },
        },
        { evidence: { ...evidence, code: 'E7', message: 'stuck', time: 9000 } },
      ]);
    });

    it('are answered with their outcome; unknown ones are logged and the stream stays open', async () => {
      const outcomes: Record<string, EvidenceOutcome> = { late: 'late', foreign: 'unknown' };
      fixture.events.onEvidence = async (executionId) => outcomes[executionId] ?? 'applied';
      gateway.received('foreign');
      gateway.result('foreign');
      gateway.result('late');
      const acks = [await gateway.next('commandResultAck'), await gateway.next('commandResultAck')];
      expect(acks).toEqual(
        expect.arrayContaining([
          { executionId: 'foreign', outcome: ResultOutcome.RESULT_OUTCOME_UNKNOWN, reason: '' },
          { executionId: 'late', outcome: ResultOutcome.RESULT_OUTCOME_LATE, reason: '' },
        ]),
      );
      expect(fixture.log.of('gateway.execution_unknown')).toMatchObject([
        { execution_id: 'foreign', evidence: 'transport_ok' },
        { execution_id: 'foreign', evidence: 'ack' },
      ]);
    });

    it('of a command are stored after its receipt and before later messages of its device', async () => {
      const receipt = gate<EvidenceOutcome>();
      await fixture.hub.send(
        fixture.downlink('e1', { clientDeviceId: 'valve' }),
        fixture.hub.peer(fixture.connection.id)?.session ?? 0,
      );
      await gateway.next('command');
      fixture.events.onEvidence = async () =>
        fixture.events.evidences.length === 1 ? await receipt.promise : 'applied';
      gateway.received('e1');
      gateway.result('e1');
      gateway.uplink('u1', { clientDeviceId: 'valve' });
      gateway.uplink('u2', { clientDeviceId: 'other' });
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'u2' });
      expect(fixture.events.evidences).toHaveLength(1);
      receipt.open('applied');
      await gateway.next('commandResultAck');
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'u1' });
      expect(fixture.events.evidences.map(({ evidence }) => evidence)).toMatchObject([
        { kind: 'transport_ok', time: 100_005 },
        { kind: 'ack' },
      ]);
    });

    const TIME_OUT_OF_RANGE = { seconds: (2n ** 62n) as never, nanos: 0 };
    it.each<[string, AttachRequest['message'], string]>([
      ['a time beyond the year 9999', receipt({ time: { seconds: 1e12, nanos: 0 } }), 'commandReceived.time'],
      ['a time beyond 2^53', receipt({ time: TIME_OUT_OF_RANGE }), 'commandReceived.time'],
      ['invalid nanos', receipt({ time: { seconds: 1, nanos: -1 } }), 'commandReceived.time'],
      ['an invalid id', receipt({ executionId: 'e 1' }), 'commandReceived.executionId'],
      ['an id that is not UTF-8', receipt({ executionId: 'e#' }), 'commandReceived.executionId'],
      ['an unknown result', result({ result: 99 as never }), 'commandResult.result'],
      ['no result', result({ result: 0 }), 'commandResult.result'],
      ['a long code', result({ code: 'x'.repeat(129) }), 'commandResult.code'],
      ['a message that is not UTF-8', result({ message: '#' }), 'commandResult.message'],
      ['a time before the year 1', result({ time: { seconds: -1e12, nanos: 0 } }), 'commandResult.time'],
    ])(
      'and receipts with %s are rejected individually and free a slot for the next command',
      async (_, message, field) => {
        const session = fixture.hub.peer(fixture.connection.id)?.session ?? 0;
        await fixture.hub.send(fixture.downlink('e1'), session);
        await gateway.next('command');
        gateway.sendBytes(notUtf8(message));
        const reason = expect.stringMatching(`^validation_failed: ${field}: `) as string;
        const executionId = expect.stringMatching(/^[e\ufffd]/) as string;
        const rejected = { executionId, outcome: ResultOutcome.RESULT_OUTCOME_REJECTED, reason };
        if (message?.$case === 'commandResult') expect(await gateway.next('commandResultAck')).toEqual(rejected);
        else expect(await gateway.next('messageRejected')).toEqual({ executionId, reason });
        expect(fixture.events.evidences).toEqual([]);
        expect(fixture.log.of('gateway.message_rejected')).toMatchObject([
          { connection_id: fixture.connection.id, reason },
        ]);
        gateway.result('e1');
        expect(await gateway.next('commandResultAck')).toMatchObject({ outcome: ResultOutcome.RESULT_OUTCOME_APPLIED });
        expect(fixture.hub.peer(fixture.connection.id)?.capacity).toBe(16);
      },
    );

    it('in a Hello are acknowledged after the welcome; invalid ones are rejected individually and count as held', async () => {
      gateway.cancel();
      const again = fixture.open();
      const entry = { code: '', message: '', time: undefined };
      again.hello({
        connectionId: fixture.connection.id,
        known: [
          { ...entry, executionId: 'done', status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED },
          { ...entry, executionId: 'held', status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED },
          {
            ...entry,
            executionId: 'bad-done',
            status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_FAILED,
            time: TIME_OUT_OF_RANGE,
          },
          {
            ...entry,
            executionId: 'bad-held',
            status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED,
            time: TIME_OUT_OF_RANGE,
          },
          { ...entry, executionId: 'bad-status', status: 99 as never },
        ],
      });
      await again.next('welcome');
      const { RESULT_OUTCOME_APPLIED, RESULT_OUTCOME_REJECTED } = ResultOutcome;
      const applied = { executionId: 'done', outcome: RESULT_OUTCOME_APPLIED, reason: '' };
      expect(await again.next('commandResultAck')).toEqual(applied);
      const rejected = { executionId: 'bad-done', outcome: RESULT_OUTCOME_REJECTED, reason: reasonAt(2) };
      expect(await again.next('commandResultAck')).toEqual(rejected);
      expect(await again.next('messageRejected')).toEqual({ executionId: 'bad-held', reason: reasonAt(3) });
      expect(await again.next('messageRejected')).toMatchObject({ executionId: 'bad-status' });
      expect(fixture.events.attachments.at(-1)).toMatchObject({
        known: [{ executionId: 'done' }, { executionId: 'held' }],
        alsoHeld: ['bad-done', 'bad-held', 'bad-status'],
      });
    });

    it('are kept by the gateway while the database is unavailable', async () => {
      fixture.events.onEvidence = async () => await Promise.reject(UNAVAILABLE);
      gateway.received('e1');
      expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'database_unavailable' });
    });
  });
});

/** Creates a receipt or a result with these fields. */
function receipt(fields: Partial<CommandReceived>): AttachRequest['message'] {
  return { $case: 'commandReceived', value: { executionId: 'e1', time: undefined, ...fields } };
}
function result(fields: Partial<CommandResult>): AttachRequest['message'] {
  const value = { executionId: 'e1', result: 1, code: '', message: '', time: undefined, ...fields };
  return { $case: 'commandResult', value };
}

/** Matches the reason why an entry of `known` with an invalid time is rejected. */
function reasonAt(at: number): string {
  return expect.stringContaining(`validation_failed: hello.known[${at}].time: `) as string;
}

/** Encodes a message with an incomplete UTF-8 character in place of `#`. */
function notUtf8(message: AttachRequest['message']): Buffer {
  const bytes = Buffer.from(AttachRequest.encode(AttachRequest.fromPartial({ message } as never)).finish());
  bytes[bytes.indexOf('#')] = 0xc3;
  return bytes;
}

/** Creates JSON with this number of levels; a scalar has one. */
function nested(levels: number): Record<string, unknown> {
  let value: unknown = 1;
  for (let level = 1; level < levels; level += 1) value = { deeper: value };
  return value as Record<string, unknown>;
}
