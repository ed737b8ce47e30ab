import * as fc from 'fast-check';
import {
  EVENT_KINDS,
  type ChirpStackCodec,
  type DownCommand,
} from '../../src/connections/connectors/chirpstack/chirpStackEvent';
import { JSON_CODEC } from '../../src/connections/connectors/chirpstack/chirpStackJson';
import { PROTOBUF_CODEC } from '../../src/connections/connectors/chirpstack/chirpStackMessages';
import type { Encoding, Event } from '../support/chirpStack/events';
import { readCommand, write } from '../support/chirpStack/wire';

const CODECS: readonly (readonly [Encoding, ChirpStackCodec])[] = [
  ['json', JSON_CODEC],
  ['protobuf', PROTOBUF_CODEC],
];
const SEED = 20261121;
const APPLICATION = '48f13ba9-7a3c-4d56-9e6d-0c6f2c1b7a11';
const TIME = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
const INFO = { applicationId: APPLICATION, devEui: '0101010101010101', deviceClassEnabled: 'CLASS_C' } as const;
const DEVICE = { applicationId: APPLICATION, devEui: '0101010101010101', deviceClass: 'C' };
const HEAD = { deduplicationId: '3ac7e3c4-4401-4b8d-9386-a5c902f9202d', time: TIME, deviceInfo: INFO };
const QUEUE_ITEM = '37f1f1ea-8a1c-4a24-b9f3-9d04bb5ff2a8';

describe.each(CODECS)('ChirpStack events in %s', (encoding, codec) => {
  const read = (event: Event): unknown => codec.decode(event.kind, write(event, encoding));

  it('are read as an uplink with the object that the network server decoded', () => {
    const object = { valve: { open: true }, level: 21.5, list: [1, 'two', null] };
    const event = read({
      kind: 'up',
      ...HEAD,
      nsTime: TIME + 100,
      fCnt: 12,
      fPort: 2,
      data: Buffer.from('0aff', 'hex'),
      object,
      rssi: -57,
      snr: 9.5,
    });
    expect(event).toMatchObject({
      kind: 'up',
      device: DEVICE,
      deduplicationId: HEAD.deduplicationId,
      time: TIME,
      dr: 5,
      fCnt: 12,
      fPort: 2,
      object,
    });
    expect(event).toMatchObject({
      gateways: [
        { rssi: -87, snr: -2.5, nsTime: TIME + 140 },
        { rssi: -57, snr: 9.5, nsTime: TIME + 100 },
      ],
    });
    expect(Buffer.from((event as { data: Uint8Array }).data).toString('hex')).toBe('0aff');
  });

  it('are read as an uplink without an object', () => {
    const event = read({
      kind: 'up',
      ...HEAD,
      nsTime: TIME,
      fCnt: 0,
      fPort: 1,
      data: Buffer.alloc(0),
      rssi: 0,
      snr: 0,
    });
    expect(event).toMatchObject({ fCnt: 0, fPort: 1 });
    expect((event as { object: unknown }).object).toBeUndefined();
  });

  it('are read as downlink events', () => {
    expect(read({ kind: 'txack', time: TIME, deviceInfo: INFO, queueItemId: QUEUE_ITEM, fCntDown: 3 })).toMatchObject({
      kind: 'txack',
      device: DEVICE,
      time: TIME,
      queueItemId: QUEUE_ITEM,
    });
    expect(read({ kind: 'ack', ...HEAD, queueItemId: QUEUE_ITEM, acknowledged: true, fCntDown: 3 })).toMatchObject({
      kind: 'ack',
      device: DEVICE,
      deduplicationId: HEAD.deduplicationId,
      time: TIME,
      queueItemId: QUEUE_ITEM,
      acknowledged: true,
    });
    expect(read({ kind: 'ack', ...HEAD, queueItemId: QUEUE_ITEM, acknowledged: false, fCntDown: 3 })).toMatchObject({
      acknowledged: false,
    });
    const log = { kind: 'log', time: TIME, deviceInfo: INFO, level: 'ERROR', description: 'too late' } as const;
    expect(read({ ...log, code: 'EXPIRED', context: { queue_item_id: QUEUE_ITEM } })).toMatchObject({
      kind: 'log',
      device: DEVICE,
      time: TIME,
      code: 'EXPIRED',
      description: 'too late',
      queueItemId: QUEUE_ITEM,
    });
    expect(read({ ...log, code: 'DOWNLINK_GATEWAY', context: {} })).toMatchObject({
      code: 'DOWNLINK_GATEWAY',
      queueItemId: '',
    });
    expect(read({ ...log, code: 'F_CNT_DOWN', context: {} })).toMatchObject({ code: 'F_CNT_DOWN' });
    expect(read({ ...log, code: 'UNKNOWN', context: {} })).toMatchObject({ code: 'UNKNOWN' });
  });

  it('are read as joins, statuses and locations', () => {
    expect(read({ kind: 'join', ...HEAD, devAddr: '00189440' })).toEqual({
      kind: 'join',
      device: DEVICE,
      devAddr: '00189440',
    });
    const status = {
      kind: 'status',
      ...HEAD,
      margin: -3,
      externalPowerSource: false,
      batteryLevelUnavailable: false,
      batteryLevel: 75.5,
    } as const;
    expect(read(status)).toMatchObject({ margin: -3, batteryLevel: 75.5 });
    expect(read({ ...status, externalPowerSource: true })).toMatchObject({ batteryLevel: undefined });
    expect(read({ ...status, batteryLevelUnavailable: true })).toMatchObject({ batteryLevel: undefined });
    expect(read({ kind: 'location', ...HEAD, latitude: 52.5, longitude: -4.25 })).toMatchObject({
      latitude: 52.5,
      longitude: -4.25,
      altitude: 0,
    });
  });

  it('have matching commands in the format of ChirpStack', () => {
    const command: DownCommand = {
      id: QUEUE_ITEM,
      devEui: '0101010101010101',
      confirmed: true,
      fPort: 10,
      payload: { kind: 'bytes', bytes: Buffer.from('00ff80', 'hex') },
      expiresAt: TIME,
    };
    const { payload: _, ...rest } = command;
    expect(readCommand(codec.encode(command), encoding)).toEqual({
      ...rest,
      data: Buffer.from('00ff80', 'hex'),
      object: undefined,
    });
    const object = { open: true, to: { level: 0.5 } };
    expect(
      readCommand(codec.encode({ ...command, confirmed: false, payload: { kind: 'json', value: object } }), encoding),
    ).toEqual({ ...rest, confirmed: false, data: Buffer.alloc(0), object });
  });

  it('cause an exception only when the input is not an event', () => {
    fc.assert(
      fc.property(fc.constantFrom(...EVENT_KINDS), fc.uint8Array({ maxLength: 200 }), (kind, bytes) => {
        try {
          expect(codec.decode(kind, Buffer.from(bytes)).kind).toBe(kind);
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
        }
      }),
      { seed: SEED },
    );
  });

  it('either cause an exception or are read when they are truncated or changed', () => {
    const whole = write(
      {
        kind: 'up',
        ...HEAD,
        nsTime: TIME,
        fCnt: 12,
        fPort: 2,
        data: Buffer.from('0aff', 'hex'),
        object: { level: 1 },
        rssi: -57,
        snr: 9.5,
      },
      encoding,
    );
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), fc.boolean(), (at, byte, cut) => {
        const bytes = cut
          ? whole.subarray(0, at)
          : Buffer.concat([whole.subarray(0, at), Buffer.from([byte]), whole.subarray(at + 1)]);
        try {
          expect(codec.decode('up', bytes).kind).toBe('up');
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
        }
      }),
      { seed: SEED },
    );
  });
});

function decodeJson(kind: 'up' | 'log' | 'ack', value: unknown): unknown {
  return JSON_CODEC.decode(kind, Buffer.from(JSON.stringify(value)));
}

describe('ChirpStack events in JSON', () => {
  it('may have numbers as strings, and defaults that are omitted or null', () => {
    const event = decodeJson('up', {
      deviceInfo: { devEui: '0101010101010101' },
      fCnt: '12',
      fPort: null,
      rxInfo: [{ rssi: '-5', snr: 'NaN' }],
    });
    expect(event).toMatchObject({
      fCnt: 12,
      fPort: 0,
      deduplicationId: '',
      device: { applicationId: '', deviceClass: 'A' },
      gateways: [{ rssi: -5, snr: Number.NaN }],
    });
    expect(decodeJson('ack', { deviceInfo: {}, queueItemId: QUEUE_ITEM })).toMatchObject({ acknowledged: false });
  });

  it('may have a time in nanoseconds', () => {
    const event = JSON_CODEC.decode('up', Buffer.from('{"deviceInfo":{},"time":1795888477123456789}'));
    expect(event.timeProblem).toBeUndefined();
    expect(event).toMatchObject({ time: 1_795_888_477_123 });
  });

  it('may have a time that cannot be read', () => {
    expect(decodeJson('up', { deviceInfo: {}, time: 'yesterday' })).toMatchObject({
      time: undefined,
      timeProblem: { reason: expect.stringMatching(/^time_unreadable: /), example: '"yesterday"' },
    });
  });

  it.each([
    [null],
    [[]],
    ['text'],
    [{}],
    [{ deviceInfo: [] }],
    [{ deviceInfo: {}, fCnt: 'many' }],
    [{ deviceInfo: {}, fCnt: 'NaN' }],
    [{ deviceInfo: {}, fCnt: -1 }],
    [{ deviceInfo: {}, fCnt: 4_294_967_296 }],
    [{ deviceInfo: {}, dr: 0.5 }],
    [{ deviceInfo: {}, data: '!' }],
    [{ deviceInfo: {}, object: [] }],
  ])('cause an exception for %j', (value) => {
    expect(() => decodeJson('up', value)).toThrow(/invalid|expected/i);
  });
});
