import type { Command } from '../../gen/gateway/v1/gateway_service';
import type { MachineClock } from '../machineClock';
import type { KeptCommand } from '../store/gatewayStore';
import type { ServerClock } from './serverClock';

/**
 * Until when a command that comes now may be begun, by the clock of the machine, in milliseconds: until its `deadline` by the clock of the server, and
 * no longer than `expiresIn` from now. A command with neither may not be begun at all. The time of day of this machine has no say.
 */
export function expiryOf(command: Command, clock: MachineClock, server: ServerClock): number {
  const now = clock.earliest();
  const validMs = findValidMs(command);
  const deadline = command.deadline?.getTime();
  if (deadline !== undefined && validMs !== undefined) server.saw(deadline - validMs, now);
  const expiry = Math.min(now + (validMs ?? Number.POSITIVE_INFINITY), deadline === undefined ? Number.POSITIVE_INFINITY : server.toMachine(deadline));
  return Number.isFinite(expiry) ? expiry : 0;
}

/** Whether a command may no longer be begun; true as well where that cannot be known, after a restart of the machine. */
export function isExpired({ expiresAtUptimeMs, machineStart }: KeptCommand, clock: MachineClock): boolean {
  return machineStart !== clock.machineStart || clock.latest() >= expiresAtUptimeMs;
}

/** Whether more of a command's time is left than it came with: then the clock was set back, and counts from another start. */
export function isFromOtherStart({ expiresAtUptimeMs }: KeptCommand, command: Command, clock: MachineClock): boolean {
  return expiresAtUptimeMs - clock.latest() > (findValidMs(command) ?? Number.POSITIVE_INFINITY);
}

function findValidMs({ expiresIn }: Command): number | undefined {
  return expiresIn && expiresIn.seconds * 1000 + expiresIn.nanos / 1e6;
}
