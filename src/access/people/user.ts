/** A person; people belong to the installation, their keys to an organization. Times are Unix milliseconds. */
export interface User {
  readonly id: string;
  readonly name: string;
  /** Empty: none was given. */
  readonly email: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}
