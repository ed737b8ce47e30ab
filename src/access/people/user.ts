/** A person; people belong to the installation, what they may do to an organization. Times are Unix milliseconds. */
export interface User {
  readonly id: string;
  readonly name: string;
  /** Empty: none was given. */
  readonly email: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Undefined: they were not. Nobody who was removed is a member of anything, nor becomes one again. */
  readonly removedAt: number | undefined;
}
