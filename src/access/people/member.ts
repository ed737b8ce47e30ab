/** A person of an organization, and what their keys may do there at most. Times are Unix milliseconds. */
export interface Member {
  readonly organizationId: string;
  readonly userId: string;
  /** The name of the person. */
  readonly name: string;
  /** Empty: none was given. */
  readonly email: string;
  /** `owner`, `admin`, `operator`, `viewer`, or the id of a role of the organization's own. */
  readonly roleId: string;
  readonly roleName: string;
  /** Of the role. */
  readonly scopes: readonly string[];
  readonly createdAt: number;
  /** When the role was last changed for another. */
  readonly updatedAt: number;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
}

/** What a person is in an organization, as the person sees it. */
export interface Membership extends Pick<Member, 'organizationId' | 'roleId' | 'roleName' | 'scopes' | 'createdAt'> {
  readonly organizationName: string;
}

/** A member to write down. */
export interface NewMember {
  readonly userId: string;
  readonly roleId: string;
  /** Unix milliseconds. */
  readonly at: number;
}

/** The role that alone makes, changes and removes those who have it. */
export const OWNER = 'owner';
