/** A member of an organization, and the scopes that limit the member's keys there. Times are Unix milliseconds. */
export interface Member {
  readonly organizationId: string;
  readonly userId: string;
  /** The name of the user. */
  readonly name: string;
  /** Empty if none is set. */
  readonly email: string;
  /** `owner`, `admin`, `operator`, `viewer`, or the id of a custom role of the organization. */
  readonly roleId: string;
  readonly roleName: string;
  /** The scopes of the role. */
  readonly scopes: readonly string[];
  readonly createdAt: number;
  /** When another role was last assigned. */
  readonly updatedAt: number;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
}

/** A membership, as the user sees it. */
export interface Membership extends Pick<Member, 'organizationId' | 'roleId' | 'roleName' | 'scopes' | 'createdAt'> {
  readonly organizationName: string;
}

/** The data of a new member. */
export interface NewMember {
  readonly userId: string;
  readonly roleId: string;
  /** Unix milliseconds. */
  readonly at: number;
}

/** The role whose members alone can add, change and remove owners. */
export const OWNER = 'owner';
