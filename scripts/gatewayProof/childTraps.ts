/** Places in the work of a gateway where it can be killed. */
export const GATEWAY_POINTS = [
  'attached', 'command_taken', 'starting', 'started', 'deliver_called', 'delivered', 'ending', 'ended', 'command_answered', 'command_acknowledged',
  'uplink_keeping', 'uplink_kept', 'uplink_sent', 'uplink_acknowledged',
] as const;

/** One of them. */
export type GatewayPoint = (typeof GATEWAY_POINTS)[number];

/** When a gateway kills itself: when it comes to the point for the n-th time. */
export interface GatewayTrap {
  readonly point: GatewayPoint;
  /** Counts from 1. */
  readonly nth: number;
  /** Turns of the event loop until the end; 0: not one more instruction runs. */
  readonly turns: number;
}

/** Kills its own process at an armed point. */
export class ChildTraps {
  private trap: GatewayTrap | undefined;
  private seen = 0;

  /** Sets the trap. */
  arm(trap: GatewayTrap): void {
    this.trap = trap;
    this.seen = 0;
  }

  /** The gateway came there. */
  pass(point: string): void {
    if (this.trap?.point !== point) return;
    this.seen += 1;
    if (this.seen === this.trap.nth) dieAfter(this.trap.turns);
  }
}

function dieAfter(turns: number): void {
  if (turns === 0) process.kill(process.pid, 'SIGKILL');
  setImmediate(() => dieAfter(turns - 1));
}
