import { z } from 'zod';
import type { JsonObject } from '../../connectorType';
import { readReceivedJson } from '../../receivedJson';
import { readSampleTime, type ReportedTime } from '../../sampleTime';
import type { ChirpStackCodec, ChirpStackEvent, DownCommand, EventKind } from './chirpStackEvent';

const text = z
  .string()
  .nullish()
  .transform((input) => input ?? '');
const booleanOrFalse = z
  .boolean()
  .nullish()
  .transform((input) => input ?? false);
/** Numbers may be strings: 64-bit numbers, NaN and infinities are written like that. */
const number = z
  .union([z.number(), z.string().regex(/^(-?\d+(\.\d+)?([eE][+-]?\d+)?|NaN|-?Infinity)$/)])
  .nullish()
  .transform((input) => Number(input ?? 0));
const MAX_UINT32 = 4_294_967_295;
const uint32 = number.refine(
  (input) => Number.isInteger(input) && input >= 0 && input <= MAX_UINT32,
  'expected a 32-bit unsigned integer',
);
const bytes = z
  .base64()
  .nullish()
  .transform((input) => Buffer.from(input ?? '', 'base64'));
/** ChirpStack sends RFC 3339; a program between it and the broker may have changed that. */
const time = z
  .unknown()
  .nullish()
  .transform((input) => readSampleTime(input));
const timeOnly = time.transform((reported) => reported.time);
/** Not copied, because a copy would silently lose a member `__proto__`. */
const object = z
  .custom<JsonObject>((input) => typeof input === 'object' && input !== null && !Array.isArray(input))
  .nullish()
  .transform((input) => input ?? undefined);

const CLASSES = { CLASS_A: 'A', CLASS_B: 'B', CLASS_C: 'C' } as const;
const deviceInfo = z
  .object({
    applicationId: text,
    devEui: text,
    deviceClassEnabled: z.enum(['CLASS_A', 'CLASS_B', 'CLASS_C']).nullish(),
  })
  .transform(({ applicationId, devEui, deviceClassEnabled }) => ({
    applicationId,
    devEui,
    deviceClass: CLASSES[deviceClassEnabled ?? 'CLASS_A'],
  }));

type DeviceInfo = z.infer<typeof deviceInfo>;

/** The fields that most events share. */
const commonFields = { deduplicationId: text, time, deviceInfo };
const reception = z.object({ rssi: number, snr: number, nsTime: timeOnly });
const up = z.object({
  ...commonFields,
  devAddr: text,
  dr: uint32,
  fCnt: uint32,
  fPort: uint32,
  data: bytes,
  object,
  rxInfo: z.array(reception).nullish(),
});
const join = z.object({ deviceInfo, devAddr: text });
const ack = z.object({ ...commonFields, queueItemId: text, acknowledged: booleanOrFalse });
const txack = z.object({ time, deviceInfo, queueItemId: text });
const log = z.object({
  time,
  deviceInfo,
  code: text,
  description: text,
  context: z.object({ queue_item_id: text }).nullish(),
});
const status = z.object({
  ...commonFields,
  margin: number,
  externalPowerSource: booleanOrFalse,
  batteryLevelUnavailable: booleanOrFalse,
  batteryLevel: number,
});
const location = z.object({
  ...commonFields,
  location: z.object({ latitude: number, longitude: number, altitude: number }),
});

/**
 * ChirpStack's JSON encoding (proto3 JSON), `json=true` in its MQTT integration. A field with its default value may be
 * missing.
 */
export const JSON_CODEC: ChirpStackCodec = {
  decode: (kind, payload) => READERS[kind](parseEvent(payload)),
  encode: ({ payload, expiresAt, ...command }: DownCommand) => {
    const content =
      payload.kind === 'json' ? { object: payload.value } : { data: Buffer.from(payload.bytes).toString('base64') };
    return Buffer.from(JSON.stringify({ ...command, ...content, expiresAt: new Date(expiresAt).toISOString() }));
  },
};

/** Parses the JSON of an event. Throws if it cannot be read. */
function parseEvent(payload: Buffer): unknown {
  const read = readReceivedJson(payload);
  if ('reason' in read) throw new Error(read.reason);
  return read.value;
}

/** Names the fields of a parsed event as ChirpStackEvent does. */
function toEvent<Fields>({
  deviceInfo: device,
  time: reportedTime,
  ...event
}: Fields & { readonly deviceInfo: DeviceInfo; readonly time: ReportedTime }) {
  return { device, ...event, ...reportedTime };
}

/** Converts the JSON of each kind of event. Throws if a field is invalid. */
const READERS: Readonly<Record<EventKind, (value: unknown) => ChirpStackEvent>> = {
  up: (value) => {
    const { rxInfo, ...event } = toEvent(up.parse(value));
    return { kind: 'up', gateways: rxInfo ?? [], ...event };
  },
  join: (value) => {
    const { deviceInfo: device, ...event } = join.parse(value);
    return { kind: 'join', device, ...event };
  },
  ack: (value) => ({ kind: 'ack', ...toEvent(ack.parse(value)) }),
  txack: (value) => ({ kind: 'txack', ...toEvent(txack.parse(value)) }),
  log: (value) => {
    const { context, code, ...event } = toEvent(log.parse(value));
    return { kind: 'log', ...event, code: code || 'UNKNOWN', queueItemId: context?.queue_item_id ?? '' };
  },
  status: (value) => {
    const { externalPowerSource, batteryLevelUnavailable, batteryLevel, ...event } = toEvent(status.parse(value));
    const isKnown = !externalPowerSource && !batteryLevelUnavailable;
    return { kind: 'status', ...event, batteryLevel: isKnown ? batteryLevel : undefined };
  },
  location: (value) => {
    const { location: coordinates, ...event } = toEvent(location.parse(value));
    return { kind: 'location', ...event, ...coordinates };
  },
};
