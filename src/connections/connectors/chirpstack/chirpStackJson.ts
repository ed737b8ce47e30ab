import { z } from 'zod';
import type { JsonObject } from '../../connectorType';
import type { ChirpStackCodec, ChirpStackEvent, DownCommand, EventKind } from './chirpStackEvent';

const text = z.string().nullish().transform((given) => given ?? '');
const flag = z.boolean().nullish().transform((given) => given ?? false);
/** Numbers may be strings, which is how 64 bits, NaN and infinities are written. */
const number = z
  .union([z.number(), z.string().regex(/^(-?\d+(\.\d+)?([eE][+-]?\d+)?|NaN|-?Infinity)$/)])
  .nullish()
  .transform((given) => Number(given ?? 0));
const LARGEST_UINT32 = 4_294_967_295;
const uint32 = number.refine((given) => Number.isInteger(given) && given >= 0 && given <= LARGEST_UINT32, 'expected a whole number of 32 bits');
const bytes = z.base64().nullish().transform((given) => Buffer.from(given ?? '', 'base64'));
/** RFC 3339 with up to nine digits after the second, of which a millisecond is kept. */
const time = z.iso.datetime({ offset: true }).nullish().transform((given) => (typeof given === 'string' ? Date.parse(given) : undefined));
/** Taken as it is: a copy would lose a member `__proto__` without a word. */
const object = z
  .custom<JsonObject>((given) => typeof given === 'object' && given !== null && !Array.isArray(given))
  .nullish()
  .transform((given) => given ?? undefined);

const CLASSES = { CLASS_A: 'A', CLASS_B: 'B', CLASS_C: 'C' } as const;
const deviceInfo = z
  .object({ applicationId: text, devEui: text, deviceClassEnabled: z.enum(['CLASS_A', 'CLASS_B', 'CLASS_C']).nullish() })
  .transform(({ applicationId, devEui, deviceClassEnabled }) => ({ applicationId, devEui, deviceClass: CLASSES[deviceClassEnabled ?? 'CLASS_A'] }));

const frame = { deduplicationId: text, time, deviceInfo };
const reception = z.object({ rssi: number, snr: number, nsTime: time });
const up = z.object({ ...frame, dr: uint32, fCnt: uint32, fPort: uint32, data: bytes, object, rxInfo: z.array(reception).nullish() });
const join = z.object({ deviceInfo, devAddr: text });
const ack = z.object({ ...frame, queueItemId: text, acknowledged: flag });
const txack = z.object({ time, deviceInfo, queueItemId: text });
const log = z.object({ time, deviceInfo, code: text, description: text, context: z.object({ queue_item_id: text }).nullish() });
const status = z.object({ ...frame, margin: number, externalPowerSource: flag, batteryLevelUnavailable: flag, batteryLevel: number });
const location = z.object({ ...frame, location: z.object({ latitude: number, longitude: number, altitude: number }) });

/** ChirpStack's JSON, which is proto3 JSON: `json=true` in its MQTT integration. A member with the value of its default may be missing. */
export const JSON_CODEC: ChirpStackCodec = {
  decode: (kind, payload) => READERS[kind](JSON.parse(payload.toString('utf8'))),
  encode: ({ payload, expiresAt, ...command }: DownCommand) => {
    const content = payload.kind === 'json' ? { object: payload.value } : { data: Buffer.from(payload.bytes).toString('base64') };
    return Buffer.from(JSON.stringify({ ...command, ...content, expiresAt: new Date(expiresAt).toISOString() }));
  },
};

const READERS: Readonly<Record<EventKind, (value: unknown) => ChirpStackEvent>> = {
  up: (value) => {
    const { deviceInfo: device, rxInfo, ...event } = up.parse(value);
    return { kind: 'up', device, gateways: rxInfo ?? [], ...event };
  },
  join: (value) => {
    const { deviceInfo: device, ...event } = join.parse(value);
    return { kind: 'join', device, ...event };
  },
  ack: (value) => {
    const { deviceInfo: device, ...event } = ack.parse(value);
    return { kind: 'ack', device, ...event };
  },
  txack: (value) => {
    const { deviceInfo: device, ...event } = txack.parse(value);
    return { kind: 'txack', device, ...event };
  },
  log: (value) => {
    const { deviceInfo: device, context, code, ...event } = log.parse(value);
    return { kind: 'log', device, ...event, code: code || 'UNKNOWN', queueItemId: context?.queue_item_id ?? '' };
  },
  status: (value) => {
    const { deviceInfo: device, externalPowerSource, batteryLevelUnavailable, batteryLevel, ...event } = status.parse(value);
    return { kind: 'status', device, ...event, batteryLevel: externalPowerSource || batteryLevelUnavailable ? undefined : batteryLevel };
  },
  location: (value) => {
    const { deviceInfo: device, location: place, ...event } = location.parse(value);
    return { kind: 'location', device, ...event, ...place };
  },
};
