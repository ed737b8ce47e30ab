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
import { replaceNonFinite } from '../../../kernel/inexactNumber';
import { PROTO_KEY } from '../../../kernel/jsonValue';
import {
  FIRST_SECOND,
  fromTimestamp,
  LAST_SECOND,
  toTimestamp,
  type TimestampMessage,
} from '../../../kernel/timestamps';
import type { JsonObject } from '../../connectorType';
import type { ReportedTime } from '../../sampleTime';
import type {
  ChirpStackCodec,
  ChirpStackEvent,
  DeviceClass as ClassName,
  DownCommand,
  EventKind,
} from './chirpStackEvent';

const CLASS_NAMES: Readonly<Partial<Record<DeviceClass, ClassName>>> = {
  [DeviceClass.DEVICE_CLASS_B]: 'B',
  [DeviceClass.DEVICE_CLASS_C]: 'C',
};

/** ChirpStack's protobuf encoding, `json=false` in its MQTT integration. */
export const PROTOBUF_CODEC: ChirpStackCodec = {
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

/** Decodes each kind of event. Throws if the bytes are malformed. */
const READERS: Readonly<Record<EventKind, (bytes: Buffer) => ChirpStackEvent>> = {
  up: (bytes) => {
    const { deduplicationId, time, deviceInfo, devAddr, dr, fCnt, fPort, data, object, rxInfo } =
      UplinkEvent.decode(bytes);
    if (object && bytes.includes(PROTO_KEY)) throw new Error('`object` must not contain a member `__proto__`');
    const gateways = rxInfo.map(({ rssi, snr, nsTime }) => ({ rssi, snr, nsTime: readTimestamp(nsTime).time }));
    return {
      kind: 'up',
      device: getDevice(deviceInfo),
      deduplicationId,
      ...readTimestamp(time),
      devAddr,
      dr,
      fCnt,
      fPort,
      data,
      // Codecs of ChirpStack can return NaN, which protobuf can hold.
      object: object && (replaceNonFinite(object) as JsonObject),
      gateways,
    };
  },
  join: (bytes) => {
    const { deviceInfo, devAddr } = JoinEvent.decode(bytes);
    return { kind: 'join', device: getDevice(deviceInfo), devAddr };
  },
  ack: (bytes) => {
    const { deduplicationId, time, deviceInfo, queueItemId, acknowledged } = AckEvent.decode(bytes);
    return {
      kind: 'ack',
      device: getDevice(deviceInfo),
      deduplicationId,
      ...readTimestamp(time),
      queueItemId,
      acknowledged,
    };
  },
  txack: (bytes) => {
    const { time, deviceInfo, queueItemId } = TxAckEvent.decode(bytes);
    return { kind: 'txack', device: getDevice(deviceInfo), ...readTimestamp(time), queueItemId };
  },
  log: (bytes) => {
    const { time, deviceInfo, code, description, context } = LogEvent.decode(bytes);
    return {
      kind: 'log',
      device: getDevice(deviceInfo),
      ...readTimestamp(time),
      code: getLogCodeName(code),
      description,
      queueItemId: context['queue_item_id'] ?? '',
    };
  },
  status: (bytes) => {
    const { deduplicationId, time, deviceInfo, margin, externalPowerSource, batteryLevelUnavailable, batteryLevel } =
      StatusEvent.decode(bytes);
    const isKnown = !externalPowerSource && !batteryLevelUnavailable;
    return {
      kind: 'status',
      device: getDevice(deviceInfo),
      deduplicationId,
      ...readTimestamp(time),
      margin,
      batteryLevel: isKnown ? batteryLevel : undefined,
    };
  },
  location: (bytes) => {
    const { deduplicationId, time, deviceInfo, location } = LocationEvent.decode(bytes);
    const { latitude, longitude, altitude } = location ?? { latitude: 0, longitude: 0, altitude: 0 };
    return {
      kind: 'location',
      device: getDevice(deviceInfo),
      deduplicationId,
      ...readTimestamp(time),
      latitude,
      longitude,
      altitude,
    };
  },
};

/** Reads the device of an event. Throws if it is missing. */
function getDevice(info: DeviceInfo | undefined): ChirpStackEvent['device'] {
  if (!info) throw new Error('`deviceInfo` is required');
  return {
    applicationId: info.applicationId,
    devEui: info.devEui,
    deviceClass: CLASS_NAMES[info.deviceClassEnabled] ?? 'A',
  };
}

/** Converts a timestamp to Unix milliseconds. One outside the years 1 to 9999 of google.protobuf.Timestamp is invalid. */
function readTimestamp(time: TimestampMessage | undefined): ReportedTime {
  if (!time) return { time: undefined };
  if (time.seconds >= FIRST_SECOND && time.seconds <= LAST_SECOND) return { time: fromTimestamp(time) };
  const reason = 'time_unreadable: send a time between the years 1 and 9999';
  return { time: undefined, timeProblem: { reason, example: `${time.seconds} s` } };
}

/** Returns the name of a log code as ChirpStack's JSON encoding has it, for example `EXPIRED`. */
function getLogCodeName(code: LogCode): string {
  // The reverse mapping of a TypeScript enum; undefined for a code that this server does not know.
  const enumName = LogCode[code];
  if (enumName === undefined || enumName === 'LOG_CODE_UNSPECIFIED') return 'UNKNOWN';
  return enumName.replace(/^LOG_CODE_/, '');
}
