import type { Command } from '../../gen/gateway/v1/gateway_service';
import type { MachineClock } from '../machineClock';
import type { StoredCommand } from '../store/gatewayStore';
import type { ServerClock } from './serverClock';

/**
 * Returns the time until which a command that arrives now may be started, by the clock of the machine, in milliseconds.
 * It is the earlier one of its `deadline` (by the clock of the server) and `expiresIn` from now, because each of them
 * may be too late: the deadline if the estimate of the server clock is wrong, `expiresIn` if the message was delayed.
 * Returns 0 for a command that must not be started: it has neither, or only a deadline while the server clock is
 * unknown. The system time of this machine has no influence.
 */
export function computeExpiry(command: Command, clock: MachineClock, server: ServerClock): number {
  const now = clock.earliest();
  const expiresInMs = getExpiresInMs(command);
  const deadline = command.deadline?.getTime();
  // `deadline` and `expiresIn` end at the same moment, so the server sent the command `expiresIn` before the deadline.
  if (deadline !== undefined && expiresInMs !== undefined) server.observe(deadline - expiresInMs, now);
  const expiry = Math.min(
    now + (expiresInMs ?? Number.POSITIVE_INFINITY),
    deadline === undefined ? Number.POSITIVE_INFINITY : server.toMachineTime(deadline),
  );
  return Number.isFinite(expiry) ? expiry : 0;
}

/**
 * Returns whether a command must not be started any more; also true if that is unknown, after a restart of the machine.
 */
export function isExpired({ expiresAtUptimeMs, machineStart }: StoredCommand, clock: MachineClock): boolean {
  return machineStart !== clock.machineStart || clock.latest() >= expiresAtUptimeMs;
}

/**
 * Returns whether more time is left than the command had on arrival. That is only possible if the uptime was reset
 * since then, so that the stored deadline counts from another start of the machine or container.
 */
export function isFromOtherStart({ expiresAtUptimeMs }: StoredCommand, command: Command, clock: MachineClock): boolean {
  return expiresAtUptimeMs - clock.latest() > (getExpiresInMs(command) ?? Number.POSITIVE_INFINITY);
}

/** Returns `expiresIn` in milliseconds; undefined: the command has none. */
function getExpiresInMs({ expiresIn }: Command): number | undefined {
  return expiresIn && expiresIn.seconds * 1000 + expiresIn.nanos / 1e6;
}
