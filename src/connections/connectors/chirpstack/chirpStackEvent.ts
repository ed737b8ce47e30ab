import type { JsonObject } from '../../connectorType';
import type { ReportedTime } from '../../sampleTime';

/** The kinds of device events of ChirpStack, as in its topics. */
export const EVENT_KINDS = ['up', 'join', 'ack', 'txack', 'log', 'status', 'location'] as const;

/** One of EVENT_KINDS. */
export type EventKind = (typeof EVENT_KINDS)[number];

/** When a LoRaWAN device listens: after it has sent (A), also at scheduled times (B), always (C). */
export type DeviceClass = 'A' | 'B' | 'C';

/** The device of an event. */
interface DeviceInfo {
  /** UUID, not normalized. */
  readonly applicationId: string;
  /** DevEUI, not normalized. */
  readonly devEui: string;
  readonly deviceClass: DeviceClass;
}

/**
 * A parsed event. Times are Unix milliseconds on the clock of the network server; undefined if not reported, or if
 * `timeProblem` says why `time` could not be read.
 */
export type ChirpStackEvent = { readonly device: DeviceInfo } & Omit<ReportedTime, 'time'> &
  (UpEvent | JoinEvent | AckEvent | TxAckEvent | LogEvent | StatusEvent | LocationEvent);

/** An uplink frame of a device. */
export interface UpEvent {
  readonly kind: 'up';
  /** Unique per frame. An ack event that the frame contained has the same id. */
  readonly deduplicationId: string;
  /**
   * When a gateway received it: on the clock of the gateway if that has the time of day, otherwise on that of the
   * network server.
   */
  readonly time: number | undefined;
  readonly dr: number;
  readonly fCnt: number;
  /** The device address of its session; empty if not reported. */
  readonly devAddr: string;
  readonly fPort: number;
  readonly data: Uint8Array;
  /** The data decoded by the codec of the network server; undefined if it has none. */
  readonly object: JsonObject | undefined;
  readonly gateways: readonly Reception[];
}

/** The reception of an uplink by one gateway. */
export interface Reception {
  /** In dBm. */
  readonly rssi: number;
  /** In dB. */
  readonly snr: number;
  /** When the network server received it from this gateway. */
  readonly nsTime: number | undefined;
}

interface JoinEvent {
  readonly kind: 'join';
  readonly devAddr: string;
}

/** A confirmed downlink was acknowledged, or its acknowledgement is missing. */
export interface AckEvent {
  readonly kind: 'ack';
  /** The id of the uplink that contained it; empty if there is none. */
  readonly deduplicationId: string;
  readonly time: number | undefined;
  readonly queueItemId: string;
  readonly acknowledged: boolean;
}

/** A gateway accepted a downlink for transmission. */
export interface TxAckEvent {
  readonly kind: 'txack';
  readonly time: number | undefined;
  readonly queueItemId: string;
}

/** A log message about a device; a few codes report the outcome of a downlink. */
export interface LogEvent {
  readonly kind: 'log';
  readonly time: number | undefined;
  /** The code of ChirpStack, for example `EXPIRED`. */
  readonly code: string;
  readonly description: string;
  /** The downlink; empty if there is none or it is not reported. */
  readonly queueItemId: string;
}

/** A device reported its status. */
export interface StatusEvent {
  readonly kind: 'status';
  readonly deduplicationId: string;
  readonly time: number | undefined;
  /** In dB. */
  readonly margin: number;
  /** In percent; undefined if unknown, or the device has an external power source. */
  readonly batteryLevel: number | undefined;
}

/** The location of a device, in degrees and metres. */
export interface LocationEvent {
  readonly kind: 'location';
  readonly deduplicationId: string;
  readonly time: number | undefined;
  readonly latitude: number;
  readonly longitude: number;
  readonly altitude: number;
}

/** A downlink for the queue of a device. `expiresAt`: Unix milliseconds. */
export interface DownCommand {
  readonly id: string;
  readonly devEui: string;
  readonly confirmed: boolean;
  readonly fPort: number;
  readonly payload:
    { readonly kind: 'json'; readonly value: JsonObject } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  readonly expiresAt: number;
}

/** The encoding of events and commands: `json` as with ChirpStack's `json=true`, otherwise `protobuf`. */
export interface ChirpStackCodec {
  /** Decodes an event of this kind. Throws if the bytes are malformed; the content is not validated any further. */
  decode(kind: EventKind, bytes: Buffer): ChirpStackEvent;
  encode(command: DownCommand): Buffer;
}
