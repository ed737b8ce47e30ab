import type { JsonObject } from '../../connectorType';

/** The kinds of events that ChirpStack publishes about a device, as its topics name them. */
export const EVENT_KINDS = ['up', 'join', 'ack', 'txack', 'log', 'status', 'location'] as const;

/** One of EVENT_KINDS. */
export type EventKind = (typeof EVENT_KINDS)[number];

/** When a device of LoRaWAN listens: after it has sent (A), at agreed times as well (B), always (C). */
export type DeviceClass = 'A' | 'B' | 'C';

/** Which device an event is about. */
export interface DeviceInfo {
  /** UUID as it was written. */
  readonly applicationId: string;
  /** DevEUI as it was written. */
  readonly devEui: string;
  readonly deviceClass: DeviceClass;
}

/** An event as this server reads it. Times are Unix milliseconds by the network server's clock, undefined: not said. */
export type ChirpStackEvent = { readonly device: DeviceInfo } & (UpEvent | JoinEvent | AckEvent | TxAckEvent | LogEvent | StatusEvent | LocationEvent);

/** A device sent a payload. */
export interface UpEvent {
  readonly kind: 'up';
  /** One for each frame; an ack that the frame brought has the same. */
  readonly deduplicationId: string;
  /** When a gateway received it: by the gateway's clock if that has the time of day, else by the network server's. */
  readonly time: number | undefined;
  readonly dr: number;
  readonly fCnt: number;
  readonly fPort: number;
  readonly data: Uint8Array;
  /** What the network server's codec made of the data; undefined: it has none. */
  readonly object: JsonObject | undefined;
  readonly gateways: readonly Reception[];
}

/** How one gateway received an uplink. */
export interface Reception {
  /** In dBm. */
  readonly rssi: number;
  /** In dB. */
  readonly snr: number;
  /** When the network server heard of it from this gateway. */
  readonly nsTime: number | undefined;
}

interface JoinEvent {
  readonly kind: 'join';
  readonly devAddr: string;
}

/** A confirmed downlink was acknowledged, or no acknowledgement was seen. */
export interface AckEvent {
  readonly kind: 'ack';
  /** That of the uplink that brought it; empty: none did. */
  readonly deduplicationId: string;
  readonly time: number | undefined;
  readonly queueItemId: string;
  readonly acknowledged: boolean;
}

/** A gateway took a downlink for sending. */
export interface TxAckEvent {
  readonly kind: 'txack';
  readonly time: number | undefined;
  readonly queueItemId: string;
}

/** Something about a device for people to read; a few codes tell what became of a downlink. */
export interface LogEvent {
  readonly kind: 'log';
  readonly time: number | undefined;
  /** ChirpStack's own word, for example `EXPIRED`. */
  readonly code: string;
  readonly description: string;
  /** Empty: it is about none, or does not say about which. */
  readonly queueItemId: string;
}

/** A device answered how it is. */
export interface StatusEvent {
  readonly kind: 'status';
  readonly deduplicationId: string;
  readonly time: number | undefined;
  /** In dB. */
  readonly margin: number;
  /** In percent; undefined: the device does not know, or runs on the mains. */
  readonly batteryLevel: number | undefined;
}

/** Where a device is, in degrees and metres. */
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
  readonly payload: { readonly kind: 'json'; readonly value: JsonObject } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  readonly expiresAt: number;
}

/** How events and commands are written: `json` as ChirpStack's `json=true`, else `protobuf`. */
export interface ChirpStackCodec {
  /** Reads an event of a kind. Throws for bytes that are none; what they contain is not judged beyond that. */
  decode(kind: EventKind, bytes: Buffer): ChirpStackEvent;
  encode(command: DownCommand): Buffer;
}
