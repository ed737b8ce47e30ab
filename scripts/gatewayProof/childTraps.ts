/** The points of a gateway's work at which it can be killed. */
export const GATEWAY_POINTS = [
  'attached',
  'command_taken',
  'starting',
  'started',
  'deliver_called',
  'delivered',
  'ending',
  'ended',
  'command_answered',
  'command_acknowledged',
  'uplink_keeping',
  'uplink_kept',
  'uplink_sent',
  'uplink_acknowledged',
] as const;

/** One of them. */
export type GatewayPoint = (typeof GATEWAY_POINTS)[number];

/** The point at which a gateway kills itself, when it reaches it for the n-th time. */
export interface GatewayTrap {
  readonly point: GatewayPoint;
  /** Counts from 1. */
  readonly nth: number;
  /** Turns of the event loop between the point and the kill; 0: no further instruction runs. */
  readonly turns: number;
}

/** Kills its own process at an armed point. */
export class ChildTraps {
  private trap: GatewayTrap | undefined;
  private passCount = 0;

  /** Sets the trap. */
  arm(trap: GatewayTrap): void {
    this.trap = trap;
    this.passCount = 0;
  }

  /** The gateway reached a point. */
  pass(point: string): void {
    if (this.trap?.point !== point) return;
    this.passCount += 1;
    if (this.passCount === this.trap.nth) killAfter(this.trap.turns);
  }
}

function killAfter(turns: number): void {
  if (turns === 0) process.kill(process.pid, 'SIGKILL');
  setImmediate(() => killAfter(turns - 1));
}
