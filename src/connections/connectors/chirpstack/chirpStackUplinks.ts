import type { JsonObject } from '../../connectorType';
import type { UplinkIdentity, UplinkMessage } from '../../connector';
import type { ReportedTime } from '../../sampleTime';
import type { LocationEvent, Reception, StatusEvent, UpEvent, DeviceClass } from './chirpStackEvent';

/** Identifies the clock of the network server, which is the same for all its devices. */
export const CLOCK = 'chirpstack';

/** How an event arrived. */
export interface Arrival {
  readonly organizationId: string;
  readonly connectionId: string;
  /** 16 lower-case hexadecimal digits. */
  readonly devEui: string;
  readonly deviceClass: DeviceClass;
  /** The arrival time, from MonotonicTimestamps. */
  readonly receivedAt: number;
  /** It was buffered at the broker. */
  readonly isBuffered: boolean;
  /** It is a retained message of the broker; see UplinkMessage. */
  readonly isRetained?: boolean;
  /** Identifies a repeated delivery of the broker; for an event without an id of its own. */
  readonly identity: UplinkIdentity;
}

/** An event with what is known about its time. */
type TimedEvent<Event> = Event & ReportedTime;

/** The maximum length of a deduplication id. ChirpStack sends UUIDs; a longer id is not used. */
const MAX_ID_LENGTH = 64;

/**
 * Converts an uplink frame: `object` as decoded by the network server, otherwise `data` in hexadecimal, and the
 * reception.
 */
export function toUplinkMessage(arrival: Arrival, event: TimedEvent<UpEvent>): UplinkMessage {
  const { fCnt, devAddr, fPort, dr, object, data } = event;
  const bestReception = findBestReception(event.gateways);
  const networkServerTime = getReceptionTime(event);
  const content = object ? { object } : { data: Buffer.from(data).toString('hex') };
  return {
    ...createBaseMessage(arrival, event.deduplicationId, '', {
      ...content,
      ...omitNonFinite({ rssi: bestReception?.rssi, snr: bestReception?.snr }),
      fCnt,
      fPort,
      dr,
    }),
    ...(networkServerTime === undefined ? getTime(event) : { time: networkServerTime }),
    // The time of the event may be on the clock of a gateway.
    clock: networkServerTime === undefined ? undefined : CLOCK,
    encoded: object ? undefined : data,
    fCnt,
    devAddr: devAddr || undefined,
    isDecodedByNetwork: isDecoded(event),
    fPort,
  };
}

/**
 * Converts a report of battery and reception. Its frame is also published as an uplink, with or without a payload, and
 * must not count twice: so the report is no evidence about commands, like a buffered message. Evidence is an uplink
 * that arrives live and may show that a device received a command.
 */
export function toStatusMessage(arrival: Arrival, event: TimedEvent<StatusEvent>): UplinkMessage {
  const { margin, batteryLevel } = event;
  return {
    ...createBaseMessage(arrival, event.deduplicationId, 'status:', omitNonFinite({ margin, batteryLevel })),
    ...getTime(event),
    clock: undefined,
    fPort: undefined,
    isBuffered: true, // so that it is no evidence
  };
}

/** Converts the location of a device, as estimated by the network server; it is no evidence about commands. */
export function toLocationMessage(arrival: Arrival, event: TimedEvent<LocationEvent>): UplinkMessage {
  const { latitude, longitude, altitude } = event;
  return {
    ...createBaseMessage(arrival, event.deduplicationId, 'location:', {
      location: omitNonFinite({ latitude, longitude, altitude }),
    }),
    ...getTime(event),
    clock: undefined,
    fPort: undefined,
    isBuffered: true, // so that it is no evidence
  };
}

/** Returns the time of an event, or why it could not be read. */
function getTime({ time, sentTime, timeProblem }: ReportedTime): ReportedTime {
  return { time, sentTime, timeProblem };
}

/** Returns whether the network server decoded the payload; undefined if the frame has none. */
export function isDecoded({ object, data }: UpEvent): boolean | undefined {
  if (object !== undefined) return true;
  return data.length > 0 ? false : undefined;
}

/** Returns when the network server first received the frame; undefined if not reported. */
export function getReceptionTime({ gateways }: UpEvent): number | undefined {
  const times = gateways.flatMap(({ nsTime }) => nsTime ?? []);
  return times.length > 0 ? Math.min(...times) : undefined;
}

/**
 * Creates the part that the messages of all events have in common. A repeated event is recognized by its deduplication
 * id, or by the delivery of the broker if the event has no usable id. A frame and the report of its status have the
 * same id, so `prefix` (for example `status:`) distinguishes them.
 */
function createBaseMessage(
  { devEui, identity, ...arrival }: Arrival,
  deduplicationId: string,
  prefix: string,
  value: JsonObject,
): Omit<UplinkMessage, keyof ReportedTime | 'clock' | 'fPort'> {
  const hasId = deduplicationId !== '' && deduplicationId.length <= MAX_ID_LENGTH;
  return {
    ...arrival,
    timeSource: 'network',
    identity: hasId ? { kind: 'id', uplinkId: prefix + deduplicationId } : identity,
    clientDeviceId: devEui,
    payload: { kind: 'json', value },
  };
}

/** Returns the reception that ChirpStack would use for a downlink: the highest SNR, then the highest RSSI. */
function findBestReception(gateways: readonly Reception[]): Reception | undefined {
  return gateways.toSorted((a, b) => b.snr - a.snr || b.rssi - a.rssi)[0];
}

/** Omits unknown values, because JSON has no NaN. */
function omitNonFinite(values: Readonly<Record<string, number | undefined>>): JsonObject {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => Number.isFinite(value)));
}
