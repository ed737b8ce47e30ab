import type { JsonObject } from '../../connectorType';
import type { UplinkIdentity, UplinkMessage } from '../../connector';
import type { LocationEvent, Reception, StatusEvent, UpEvent, DeviceClass } from './chirpStackEvent';

/** Whose clock the times of transmissions are of: that of the network server, which is one for all its devices. */
export const CLOCK = 'chirpstack';

/** How an event came in. */
export interface Arrival {
  readonly organizationId: string;
  readonly connectionId: string;
  /** 16 lower-case hexadecimal digits. */
  readonly devEui: string;
  readonly deviceClass: DeviceClass;
  /** The stamp of its arrival. */
  readonly receivedAt: number;
  /** It waited at the broker. */
  readonly isBuffered: boolean;
  /** That of the broker's delivery. */
  readonly identity: UplinkIdentity;
}

const LONGEST_ID = 64;

/** A frame with a payload: `object` as the network server decoded it, else `data` in hexadecimal, and how it was received. */
export function uplinkOfUp(arrival: Arrival, event: UpEvent): UplinkMessage {
  const { fCnt, fPort, dr, object, data } = event;
  const best = bestOf(event.gateways);
  const nsTime = receptionTime(event);
  const content = object ? { object } : { data: Buffer.from(data).toString('hex') };
  return {
    ...messageOf(arrival, event.deduplicationId, '', { ...content, ...finite({ rssi: best?.rssi, snr: best?.snr }), fCnt, fPort, dr }),
    time: nsTime ?? event.time,
    clock: nsTime === undefined ? undefined : CLOCK, // the event's own time may be that of a gateway
    encoded: object ? undefined : data,
    fCnt,
    fPort,
  };
}

/**
 * What a device said of its battery and its reception. It is no answer to a command: its frame is an uplink of its own, with a payload or
 * without, and must not count twice. So it proves nothing, as a buffered one.
 */
export function uplinkOfStatus(arrival: Arrival, event: StatusEvent): UplinkMessage {
  const { margin, batteryLevel } = event;
  return { ...messageOf(arrival, event.deduplicationId, 'status:', finite({ margin, batteryLevel })), time: event.time, isBuffered: true };
}

/** Where the network server believes a device to be; it proves nothing either. */
export function uplinkOfLocation(arrival: Arrival, event: LocationEvent): UplinkMessage {
  const { latitude, longitude, altitude } = event;
  return { ...messageOf(arrival, event.deduplicationId, 'location:', { location: finite({ latitude, longitude, altitude }) }), time: event.time, isBuffered: true };
}

/** When the network server first heard of a frame; undefined: it does not say. */
export function receptionTime({ gateways }: UpEvent): number | undefined {
  let first: number | undefined;
  for (const { nsTime } of gateways) if (nsTime !== undefined && (first === undefined || nsTime < first)) first = nsTime;
  return first;
}

function messageOf({ devEui, identity, ...arrival }: Arrival, deduplicationId: string, prefix: string, value: JsonObject): UplinkMessage {
  const isNamed = deduplicationId !== '' && deduplicationId.length <= LONGEST_ID;
  return {
    ...arrival,
    identity: isNamed ? { kind: 'id', uplinkId: prefix + deduplicationId } : identity,
    clientDeviceId: devEui,
    time: undefined,
    clock: undefined,
    payload: { kind: 'json', value },
    fPort: undefined,
  };
}

/** The reception that ChirpStack itself would answer by: the clearest, and of those the strongest. */
function bestOf(gateways: readonly Reception[]): Reception | undefined {
  return gateways.toSorted((one, other) => other.snr - one.snr || other.rssi - one.rssi)[0];
}

/** Without what is not known: JSON has no NaN. */
function finite(values: Readonly<Record<string, number | undefined>>): JsonObject {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => Number.isFinite(value)));
}
