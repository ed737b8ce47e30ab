import type { Command, Welcome } from '../../gen/gateway/v1/gateway_service';
import type { MachineClock } from '../machineClock';
import type { KeptCommand } from '../store/gatewayStore';

/** The clock of the server, as it stood in its welcome. */
export interface ServerClock {
  /** Unix milliseconds. */
  readonly time: number;
  /** When that came, by the clock of the machine. */
  readonly at: number;
}

/** The clock of the server; undefined: it did not say. */
export function serverClock({ serverTime }: Welcome, clock: MachineClock): ServerClock | undefined {
  return serverTime && { time: serverTime.getTime(), at: clock.earliest() };
}

/**
 * Until when a command that comes now may be begun, by the clock of the machine, in milliseconds: `expiresIn` from now, or where that is missing its
 * `deadline` by the server's clock as the welcome told it. A command with neither may not be begun at all. The time of day of this machine has no say.
 */
export function expiryOf({ expiresIn, deadline }: Command, clock: MachineClock, server: ServerClock | undefined): number {
  const now = clock.earliest();
  if (expiresIn) return now + expiresIn.seconds * 1000 + expiresIn.nanos / 1e6;
  if (deadline && server) return server.at + (deadline.getTime() - server.time);
  return 0;
}

/** Whether a command may no longer be begun; true as well where that cannot be known, after a restart of the machine. */
export function isExpired({ expiresAtUptimeMs, machineStart }: KeptCommand, clock: MachineClock): boolean {
  return machineStart !== clock.machineStart || clock.latest() >= expiresAtUptimeMs;
}
