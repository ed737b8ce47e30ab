import type { GatewayTrap } from './childTraps';

/** The start parameters of a gateway process: the program's second argument, as JSON. */
export interface GatewayOrders {
  readonly address: string;
  readonly apiKey: string;
  readonly organizationId: string;
  readonly connectionId: string;
  /** The path of its store, and of the world file. */
  readonly store: string;
  readonly world: string;
  /** The number of this start, from 1, so that no two processes send the same uplink. */
  readonly start: number;
  readonly maxConcurrentDeliveries: number;
  /** The minimum and maximum time a device needs for a command, in milliseconds. */
  readonly deviceMs: readonly [min: number, max: number];
  /** The devices that send uplinks without a command. */
  readonly meters: readonly string[];
  readonly seed: number;
  /** By how much its time of day is ahead, in milliseconds. */
  readonly aheadMs: number;
}

/** Messages from the parent to a gateway process. */
export type ToGateway =
  | { readonly kind: 'trap'; readonly trap: GatewayTrap }
  /** Sets the total number of uplinks, of this process and the earlier ones. */
  | { readonly kind: 'quota'; readonly uplinks: number }
  /** Every device that received a command sends its position. */
  | { readonly kind: 'show' }
  /** Sets by how much the time of day is ahead. */
  | { readonly kind: 'clock'; readonly aheadMs: number }
  | { readonly kind: 'report' }
  | { readonly kind: 'stop' };

/** Messages from a gateway process to its parent. */
export type FromGateway =
  | { readonly kind: 'attached' | 'detached' }
  /** The open work: uplinks and commands that the server has not acknowledged. */
  | {
      readonly kind: 'report';
      readonly sent: number;
      readonly openUplinks: number;
      readonly openCommands: number;
      readonly storeFailures: number;
    };
