/** The operations per second at full load. */
export interface Rates {
  /** Uplinks of 200 meters over MQTT, five mapped readings each. */
  readonly mqttUplinks: number;
  /** Uplinks of 40 meters behind a gateway, five mapped readings each; each is acknowledged separately. */
  readonly gatewayUplinks: number;
  /** Executions on 100 valves behind that gateway; 20 % are cancelled immediately, to 2 % the device never responds. */
  readonly executions: number;
  /** gRPC calls that read a device, its executions, or the latest readings. */
  readonly grpcReads: number;
  /** REST calls that read a page of devices, a device, or the readings of the last minute. */
  readonly restReads: number;
  /** Streams of readings or executions that are opened on separate connections, for 10 seconds on average. */
  readonly streams: number;
  /** Previews of an encoder of 16 KiB; 10 % of them use an encoder that never ends. */
  readonly previews: number;
  /** Images that are uploaded, read as a thumbnail, and deleted. */
  readonly images: number;
  /** API keys that are created, used, and revoked. The server explains at most 30 failed authentications per minute. */
  readonly keys: number;
  /** Connections to the broker that are created, changed, and deleted. */
  readonly connections: number;
  /** Devices that are renamed. */
  readonly changes: number;
}

/**
 * The standard load: a site of 200 meters that send every second (or 2000 that send every ten seconds), 100 actuators, a
 * console that is open on 20 screens, and an administrator at work. It is the same on every machine, so that runs can be
 * compared; any machine for such a site can carry it.
 */
export const STANDARD_LOAD: Rates = {
  mqttUplinks: 200,
  gatewayUplinks: 40,
  executions: 20,
  grpcReads: 100,
  restReads: 40,
  streams: 2,
  previews: 4,
  images: 1,
  keys: 0.4,
  connections: 0.4,
  changes: 4,
};

export const METERS = 200;
export const GATEWAY_METERS = 40;
export const VALVES = 100;
/** The average duration of a stream, in milliseconds. */
export const STREAM_MS = 10_000;
/** The share of executions that are cancelled. */
export const CANCELLED_SHARE = 0.2;
/** The share of commands without a response of the device. */
export const SILENT_SHARE = 0.02;
/** The timeouts for the delivery to a device and for its response after that, in seconds. */
export const TIMERS = { deliveryTimeout: 5, ackTimeout: 5 };
