/** Who is asking: a checked API key and what it may do. */
export interface Principal {
  readonly keyId: string;
  /** `plr_` and 6 characters; safe to log. */
  readonly keyPrefix: string;
  readonly organizationId: string;
  readonly ownerUserId: string;
  readonly scopes: ReadonlySet<string>;
  /** The gateway connections that it may attach to. */
  readonly connections: ReadonlySet<string> | 'all';
  /** Made on the command line with `--admin`: may act on the whole installation where a method says so. */
  readonly isAdmin: boolean;
  /** Unix milliseconds; undefined: never. */
  readonly expiresAt: number | undefined;
}
