/** A user of the installation. Permissions come from memberships in organizations. Times are Unix milliseconds. */
export interface User {
  readonly id: string;
  readonly name: string;
  /** Empty if none is set. */
  readonly email: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Undefined if the user was not removed. A removed user has no memberships and cannot get new ones. */
  readonly removedAt: number | undefined;
}
