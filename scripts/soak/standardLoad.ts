/** What is done, and how often each second at full load. */
export interface Rates {
  /** Uplinks of 200 meters over MQTT, five mapped readings each. */
  readonly mqttUplinks: number;
  /** Uplinks of 40 meters behind a gateway, five mapped readings each; each is acknowledged by itself. */
  readonly gatewayUplinks: number;
  /** Executions on 100 valves behind that gateway; a fifth is cancelled at once, of a fiftieth the device never says anything. */
  readonly executions: number;
  /** Calls over gRPC that read: a device, its executions, the latest readings. */
  readonly grpcReads: number;
  /** Calls over REST that read: a page of devices, a device, readings of the last minute. */
  readonly restReads: number;
  /** Streams of readings or executions that are opened, over a connection of their own; each stays for 10 seconds on average. */
  readonly streams: number;
  /** Previews of an encoder of 16 KiB, a tenth of them one that never ends. */
  readonly previews: number;
  /** Pictures that are uploaded, shown at half their size, and deleted. */
  readonly pictures: number;
  /** Keys that are made, used, and revoked; a server counts refused ones, by the address: no more than 30 a minute are told why. */
  readonly keys: number;
  /** Connections to the broker that are made, changed, and deleted. */
  readonly connections: number;
  /** Devices that are renamed. */
  readonly changes: number;
}

/**
 * The standard load: a site of 200 meters that each send every second (or 2000 that send every ten seconds), a hundred actuators, a console
 * that is open on twenty screens, and somebody who works on it. It does not depend on the machine, so that runs can be compared: any machine
 * that is sold for such a site carries it.
 */
export const STANDARD_LOAD: Rates = {
  mqttUplinks: 200,
  gatewayUplinks: 40,
  executions: 20,
  grpcReads: 100,
  restReads: 40,
  streams: 2,
  previews: 4,
  pictures: 1,
  keys: 0.4,
  connections: 0.4,
  changes: 4,
};

export const METERS = 200;
export const GATEWAY_METERS = 40;
export const VALVES = 100;
/** How long a stream stays open on average, in milliseconds. */
export const STREAM_MS = 10_000;
export const CANCELLED = 0.2;
export const SILENT = 0.02;
/** After which a silent device is given up: seconds for delivery, and for its answer beyond that. */
export const TIMERS = { deliveryTimeout: 5, ackTimeout: 5 };
