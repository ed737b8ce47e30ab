import type { LogCodeMap } from '@chirpstack/chirpstack-api/integration/integration_pb';

/** The encoding of the simulated MQTT integration. */
export type Encoding = 'json' | 'protobuf';

/** The classes of LoRaWAN devices, as ChirpStack's JSON names them. */
export type ClassName = 'CLASS_A' | 'CLASS_B' | 'CLASS_C';

/** The device of an event. */
export interface InfoOfDevice {
  readonly applicationId: string;
  readonly devEui: string;
  readonly deviceClassEnabled: ClassName;
}

/** An event with the field names of ChirpStack's JSON. Times are Unix milliseconds here. */
export type Event =
  | {
      readonly kind: 'up';
      readonly deduplicationId: string;
      readonly time: number;
      readonly nsTime: number;
      readonly deviceInfo: InfoOfDevice;
      /** The address of the session, by default the usual one. */
      readonly devAddr?: string;
      readonly fCnt: number;
      readonly fPort: number;
      readonly data: Uint8Array;
      readonly object?: Readonly<Record<string, unknown>> | undefined;
      readonly rssi: number;
      readonly snr: number;
    }
  | {
      readonly kind: 'join';
      readonly deduplicationId: string;
      readonly time: number;
      readonly deviceInfo: InfoOfDevice;
      readonly devAddr: string;
    }
  | {
      readonly kind: 'ack';
      readonly deduplicationId: string;
      readonly time: number;
      readonly deviceInfo: InfoOfDevice;
      readonly queueItemId: string;
      readonly acknowledged: boolean;
      readonly fCntDown: number;
    }
  | {
      readonly kind: 'txack';
      readonly time: number;
      readonly deviceInfo: InfoOfDevice;
      readonly queueItemId: string;
      readonly fCntDown: number;
    }
  | {
      readonly kind: 'log';
      readonly time: number;
      readonly deviceInfo: InfoOfDevice;
      readonly level: 'INFO' | 'WARNING' | 'ERROR';
      readonly code: keyof LogCodeMap;
      readonly description: string;
      readonly context: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: 'status';
      readonly deduplicationId: string;
      readonly time: number;
      readonly deviceInfo: InfoOfDevice;
      readonly margin: number;
      readonly externalPowerSource: boolean;
      readonly batteryLevelUnavailable: boolean;
      readonly batteryLevel: number;
    }
  | {
      readonly kind: 'location';
      readonly deduplicationId: string;
      readonly time: number;
      readonly deviceInfo: InfoOfDevice;
      readonly latitude: number;
      readonly longitude: number;
    };

/** A parsed down command. `expiresAt` is in Unix milliseconds. */
export interface DownCommand {
  readonly id: string;
  readonly devEui: string;
  readonly confirmed: boolean;
  readonly fPort: number;
  readonly data: Buffer;
  readonly object: Readonly<Record<string, unknown>> | undefined;
  readonly expiresAt: number | undefined;
}

/** The address of a device that never joined again. */
export const FIRST_DEV_ADDR = '00189440';

/** Names that no test reads. */
export const NAMES = {
  tenantId: '52f14cd4-c6f1-4fbd-8f87-4025e1d49242',
  tenantName: 'Site',
  applicationName: 'Plant',
  deviceProfileId: '14855bf7-d10d-4aee-b618-ebfcb64dc7ad',
  deviceProfileName: 'Valve',
  deviceName: 'Valve',
};
