import type { GatewayTrap } from './childTraps';

/** How a gateway process is started: the program's second argument, as JSON. */
export interface GatewayOrders {
  readonly address: string;
  readonly apiKey: string;
  readonly organizationId: string;
  readonly connectionId: string;
  /** The file of its store, and that of the world. */
  readonly store: string;
  readonly world: string;
  /** Counts its starts from 1: no two of them make the same uplink. */
  readonly start: number;
  readonly deliveriesAtOnce: number;
  /** How long a device takes at least and at most, in milliseconds. */
  readonly deviceMs: readonly [least: number, most: number];
  /** The devices that send uplinks by themselves. */
  readonly meters: readonly string[];
  readonly seed: number;
  /** How far its time of day is ahead, in milliseconds. */
  readonly aheadMs: number;
}

/** What the parent says to a gateway process. */
export type ToGateway =
  | { readonly kind: 'trap'; readonly trap: GatewayTrap }
  /** So many uplinks are to be kept in all, by this process and those before. */
  | { readonly kind: 'quota'; readonly uplinks: number }
  /** Every device that was told something shows it. */
  | { readonly kind: 'show' }
  /** So far is its time of day ahead from now on. */
  | { readonly kind: 'clock'; readonly aheadMs: number }
  | { readonly kind: 'report' }
  | { readonly kind: 'stop' };

/** What a gateway process says to its parent. */
export type FromGateway =
  | { readonly kind: 'attached' | 'detached' }
  /** What is still to do: uplinks and commands that the server has not acknowledged. */
  | { readonly kind: 'report'; readonly sent: number; readonly openUplinks: number; readonly openCommands: number; readonly storeFailures: number };
