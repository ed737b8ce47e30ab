/** A customer's or site's world: everything but users belongs to one. Times are Unix milliseconds. */
export interface Organization {
  readonly id: string;
  /** Unique in the installation, whatever the case. */
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}
