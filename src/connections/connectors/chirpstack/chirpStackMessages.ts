import {
  AckEvent,
  DeviceClass,
  type DeviceInfo,
  DownlinkCommand,
  JoinEvent,
  LocationEvent,
  LogCode,
  LogEvent,
  StatusEvent,
  TxAckEvent,
  UplinkEvent,
} from '../../../gen/chirpstack/v4/integration';
import { PROTO_KEY } from '../../../kernel/jsonValue';
import { fromTimestamp, toTimestamp, type TimestampMessage } from '../../../kernel/timestamps';
import type { ChirpStackCodec, ChirpStackEvent, DeviceClass as ClassName, DownCommand, EventKind } from './chirpStackEvent';

const FIRST_SECOND = -62_135_596_800;
const LAST_SECOND = 253_402_300_799;
const CLASS_OF: Readonly<Partial<Record<DeviceClass, ClassName>>> = { [DeviceClass.DEVICE_CLASS_B]: 'B', [DeviceClass.DEVICE_CLASS_C]: 'C' };

/** ChirpStack's protobuf, `json=false` in its MQTT integration. */
export const PROTOBUF: ChirpStackCodec = {
  decode: (kind, bytes) => READERS[kind](bytes),
  encode: ({ payload, expiresAt, ...command }: DownCommand) =>
    Buffer.from(
      DownlinkCommand.encode(
        DownlinkCommand.fromPartial({
          ...command,
          ...(payload.kind === 'json' ? { object: payload.value } : { data: Buffer.from(payload.bytes) }),
          expiresAt: toTimestamp(expiresAt),
        }),
      ).finish(),
    ),
};

const READERS: Readonly<Record<EventKind, (bytes: Buffer) => ChirpStackEvent>> = {
  up: (bytes) => {
    const { deduplicationId, time, deviceInfo, dr, fCnt, fPort, data, object, rxInfo } = UplinkEvent.decode(bytes);
    if (object && bytes.includes(PROTO_KEY)) throw new Error('`object` has a member `__proto__`');
    const gateways = rxInfo.map(({ rssi, snr, nsTime }) => ({ rssi, snr, nsTime: timeOf(nsTime) }));
    return { kind: 'up', device: deviceOf(deviceInfo), deduplicationId, time: timeOf(time), dr, fCnt, fPort, data, object, gateways };
  },
  join: (bytes) => {
    const { deviceInfo, devAddr } = JoinEvent.decode(bytes);
    return { kind: 'join', device: deviceOf(deviceInfo), devAddr };
  },
  ack: (bytes) => {
    const { deduplicationId, time, deviceInfo, queueItemId, acknowledged } = AckEvent.decode(bytes);
    return { kind: 'ack', device: deviceOf(deviceInfo), deduplicationId, time: timeOf(time), queueItemId, acknowledged };
  },
  txack: (bytes) => {
    const { time, deviceInfo, queueItemId } = TxAckEvent.decode(bytes);
    return { kind: 'txack', device: deviceOf(deviceInfo), time: timeOf(time), queueItemId };
  },
  log: (bytes) => {
    const { time, deviceInfo, code, description, context } = LogEvent.decode(bytes);
    return { kind: 'log', device: deviceOf(deviceInfo), time: timeOf(time), code: codeOf(code), description, queueItemId: context['queue_item_id'] ?? '' };
  },
  status: (bytes) => {
    const { deduplicationId, time, deviceInfo, margin, externalPowerSource, batteryLevelUnavailable, batteryLevel } = StatusEvent.decode(bytes);
    const isKnown = !externalPowerSource && !batteryLevelUnavailable;
    return { kind: 'status', device: deviceOf(deviceInfo), deduplicationId, time: timeOf(time), margin, batteryLevel: isKnown ? batteryLevel : undefined };
  },
  location: (bytes) => {
    const { deduplicationId, time, deviceInfo, location } = LocationEvent.decode(bytes);
    const { latitude, longitude, altitude } = location ?? { latitude: 0, longitude: 0, altitude: 0 };
    return { kind: 'location', device: deviceOf(deviceInfo), deduplicationId, time: timeOf(time), latitude, longitude, altitude };
  },
};

/** Throws for an event that names no device. */
function deviceOf(info: DeviceInfo | undefined): ChirpStackEvent['device'] {
  if (!info) throw new Error('`deviceInfo` is missing');
  return { applicationId: info.applicationId, devEui: info.devEui, deviceClass: CLASS_OF[info.deviceClassEnabled] ?? 'A' };
}

/** Throws for a time beyond the years 1 to 9999, as google.protobuf.Timestamp has them. */
function timeOf(time: TimestampMessage | undefined): number | undefined {
  if (!time) return undefined;
  if (time.seconds < FIRST_SECOND || time.seconds > LAST_SECOND) throw new Error('a time is beyond the years 1 to 9999');
  return fromTimestamp(time);
}

function codeOf(code: LogCode): string {
  return (LogCode[code] ?? 'UNKNOWN').replace(/^LOG_CODE_(UNSPECIFIED$)?/, '') || 'UNKNOWN';
}
