import { status } from '@grpc/grpc-js';
import { CommandResultCode, ResultOutcome, type Uplink, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import type { EvidenceOutcome, UplinkOutcome as Stored } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { openAttachRoom, type AttachRoom } from './attachRoom';
import { gate, type Gate, uplinkIdOf } from './fakeEvents';
import type { GatewayClient } from './gatewayClient';

const UNAVAILABLE = new DomainError('unavailable', 'database_unavailable', 'the database is away; try again');
const STORED: Stored = { outcome: 'stored' };

describe('what an attached gateway sends', () => {
  let room: AttachRoom;
  let gateway: GatewayClient;
  beforeEach(async () => {
    room = await openAttachRoom();
    gateway = room.open();
    await gateway.attach({ connectionId: room.connection.id });
  });
  afterEach(async () => await room.stop());

  describe('uplinks', () => {
    it('are handed up whole, and acknowledged only when they are stored', async () => {
      const stored = gate<Stored>();
      room.events.onUplink = async () => await stored.promise;
      gateway.uplink('u1', { clientDeviceId: ' valve 1 ', time: { seconds: 5, nanos: 6_000_000 }, fPort: 7 });
      gateway.uplink('u1', { payload: { $case: 'bytes', value: Buffer.from([1, 2]) } });
      gateway.uplink('', {});
      await room.events.until(() => room.events.uplinks.length === 2);
      expect(room.events.uplinks).toEqual([
        { organizationId: 'org-1', connectionId: room.connection.id, identity: { kind: 'id', uplinkId: 'u1' }, clientDeviceId: 'valve 1', receivedAt: expect.closeTo(room.clock.now(), 1) as number, time: 5006, clock: `${room.connection.id}/gateway-a`, payload: { kind: 'json', value: { t: 21.5 } }, fPort: 7 },
        expect.objectContaining({ clientDeviceId: 'device-1', time: undefined, payload: { kind: 'bytes', bytes: Buffer.from([1, 2]) }, fPort: undefined }),
      ]);
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: '', outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED }); // it overtakes: nothing else was acknowledged
      stored.open(STORED);
      expect(await gateway.next('uplinkAck')).toEqual({ uplinkId: 'u1', outcome: UplinkOutcome.UPLINK_OUTCOME_STORED, reason: '' });
    });

    it('are answered as the rooms above decide', async () => {
      const outcomes: Record<string, Stored> = { again: { outcome: 'duplicate' }, bad: { outcome: 'rejected', reason: 'too_odd' } };
      room.events.onUplink = async (message) => outcomes[uplinkIdOf(message)] ?? STORED;
      gateway.uplink('again');
      expect(await gateway.next('uplinkAck')).toEqual({ uplinkId: 'again', outcome: UplinkOutcome.UPLINK_OUTCOME_DUPLICATE, reason: '' });
      gateway.uplink('bad');
      expect(await gateway.next('uplinkAck')).toEqual({ uplinkId: 'bad', outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED, reason: 'too_odd' });
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
      ['a number that is none', { payload: { $case: 'json', value: { n: Number.NaN } } }, 'payload_invalid'],
      ['an impossible time', { time: { seconds: 1e12, nanos: 0 } }, 'time_invalid'],
      ['a negative port', { fPort: -1 }, 'f_port_invalid'],
    ])('with %s are rejected, and the stream lives', async (_, fields, reason) => {
      gateway.uplink(fields.uplinkId ?? 'poison', fields);
      expect(await gateway.next('uplinkAck')).toEqual({ uplinkId: fields.uplinkId ?? 'poison', outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED, reason: expect.stringContaining(`${reason}: `) });
      expect(room.events.uplinks).toEqual([]);
      gateway.uplink('good', { payload: { $case: 'json', value: nested(32) } });
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'good', outcome: UplinkOutcome.UPLINK_OUTCOME_STORED });
    });

    it('of one device are stored in order, those of others do not wait for it', async () => {
      const slow = gate<Stored>();
      room.events.onUplink = async (message) => (uplinkIdOf(message) === 'a1' ? await slow.promise : STORED);
      gateway.uplink('a1', { clientDeviceId: 'a' });
      gateway.uplink('a2', { clientDeviceId: 'a' });
      gateway.uplink('b1', { clientDeviceId: 'b' });
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'b1' });
      expect(room.events.uplinks.map(uplinkIdOf)).toEqual(['a1', 'b1']);
      slow.open(STORED);
      expect([await gateway.next('uplinkAck'), await gateway.next('uplinkAck')]).toMatchObject([{ uplinkId: 'a1' }, { uplinkId: 'a2' }]);
    });

    it('wait on the wire while 64 are being stored', async () => {
      const open: Gate<Stored>[] = [];
      room.events.onUplink = async () => {
        const waiting = gate<Stored>();
        open.push(waiting);
        return await waiting.promise;
      };
      for (let n = 0; n < 200; n += 1) gateway.uplink(`u${n}`, { clientDeviceId: `d${n}` });
      await room.events.until(() => open.length === 64);
      await room.status(); // a whole call later there are no more of them
      expect(open).toHaveLength(64);
      for (let at = 0; at < 200; at += 1) {
        await room.events.until(() => open.length > at);
        open[at]?.open(STORED);
        await gateway.next('uplinkAck');
      }
    });

    it('are not acknowledged while the database is away; the stream ends, so that they come again', async () => {
      room.events.onUplink = async () => await Promise.reject(UNAVAILABLE);
      gateway.uplink('u1');
      expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'database_unavailable' });
      expect(room.log.of('gateway.message_failed')).toMatchObject([{ uplink_id: 'u1', connection_id: room.connection.id }]);
      await expect(gateway.next('uplinkAck')).rejects.toThrow('ended');
    });

    it('that fail for no known reason are not acknowledged, and the stream lives', async () => {
      room.events.onUplink = async (message) => (uplinkIdOf(message) === 'odd' ? await Promise.reject(new Error('a bug')) : STORED);
      gateway.uplink('odd');
      gateway.uplink('good');
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'good' });
      expect(room.log.of('gateway.message_failed')).toMatchObject([{ uplink_id: 'odd' }]);
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
      expect(await gateway.next('commandResultAck')).toEqual({ executionId: 'e1', outcome: ResultOutcome.RESULT_OUTCOME_APPLIED });
      gateway.result('e1', result, { code: 'E7', message: 'stuck', time: { seconds: 9, nanos: 0 } });
      await gateway.next('commandResultAck');
      expect(room.events.evidences).toMatchObject([
        { organizationId: 'org-1', connectionId: room.connection.id, executionId: 'e1', source: 'gateway:gateway-a', evidence: { ...evidence, time: undefined } },
        { evidence: { ...evidence, code: 'E7', message: 'stuck', time: 9000 } },
      ]);
    });

    it('are answered with what became of them; unknown ones are logged and the stream lives', async () => {
      const outcomes: Record<string, EvidenceOutcome> = { late: 'late', foreign: 'unknown' };
      room.events.onEvidence = async (executionId) => outcomes[executionId] ?? 'applied';
      gateway.received('foreign');
      gateway.result('foreign');
      gateway.result('late');
      const acks = [await gateway.next('commandResultAck'), await gateway.next('commandResultAck')];
      expect(acks).toEqual(expect.arrayContaining([{ executionId: 'foreign', outcome: ResultOutcome.RESULT_OUTCOME_UNKNOWN }, { executionId: 'late', outcome: ResultOutcome.RESULT_OUTCOME_LATE }]));
      expect(room.log.of('gateway.execution_unknown')).toMatchObject([{ execution_id: 'foreign', evidence: 'transport_ok' }, { execution_id: 'foreign', evidence: 'ack' }]);
    });

    it('of a command are stored after its receipt and before what its device sends next', async () => {
      const receipt = gate<EvidenceOutcome>();
      await room.hub.send(room.downlink('e1', { clientDeviceId: 'valve' }), room.hub.peer(room.connection.id)?.session ?? 0);
      await gateway.next('command');
      room.events.onEvidence = async () => (room.events.evidences.length === 1 ? await receipt.promise : 'applied');
      gateway.received('e1');
      gateway.result('e1');
      gateway.uplink('u1', { clientDeviceId: 'valve' });
      gateway.uplink('u2', { clientDeviceId: 'other' });
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'u2' });
      expect(room.events.evidences).toHaveLength(1);
      receipt.open('applied');
      await gateway.next('commandResultAck');
      expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'u1' });
      expect(room.events.evidences.map(({ evidence }) => evidence)).toMatchObject([{ kind: 'transport_ok', time: 100_005 }, { kind: 'ack' }]);
    });

    it('are kept by the gateway while the database is away', async () => {
      room.events.onEvidence = async () => await Promise.reject(UNAVAILABLE);
      gateway.received('e1');
      expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'database_unavailable' });
    });
  });
});

/** JSON of so many levels; a scalar has one. */
function nested(levels: number): Record<string, unknown> {
  let value: unknown = 1;
  for (let level = 1; level < levels; level += 1) value = { deeper: value };
  return value as Record<string, unknown>;
}
