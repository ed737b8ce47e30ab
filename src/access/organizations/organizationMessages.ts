import type { DeleteOrganizationResponse, ListOrganizationsResponse, Organization as OrganizationMessage } from '../../gen/organizations_service';
import { etagOf } from '../../kernel/etags';
import { toTimestamp } from '../../kernel/timestamps';
import type { Organization } from './organization';
import type { DeletionOffer } from './organizationDeletion';
import type { OrganizationPage } from './organizationService';

/** An organization on the wire. */
export function organizationToMessage(organization: Organization): OrganizationMessage {
  return {
    id: organization.id,
    name: organization.name,
    createdAt: toTimestamp(organization.createdAt),
    updatedAt: toTimestamp(organization.updatedAt),
    readingRetentionDays: organization.readingRetentionDays,
    thinReadingsAfterDays: organization.thinReadingsAfterDays ?? 0,
    etag: etagOf(organization.revision),
  };
}

/** A page of them on the wire. */
export function organizationPageToMessage({ organizations, nextPageToken }: OrganizationPage): ListOrganizationsResponse {
  return { organizations: organizations.map(organizationToMessage), nextPageToken };
}

/** What would go with an organization, on the wire. */
export function deletionOfferToMessage({ organization, confirmation, expiresAt, devices, connections, members, apiKeys }: DeletionOffer): DeleteOrganizationResponse {
  return { deleted: false, confirmation, confirmationExpiresAt: toTimestamp(expiresAt), name: organization.name, devices, connections, members, apiKeys };
}

/** It is deleted. */
export const DELETED: DeleteOrganizationResponse = { deleted: true, confirmation: '', confirmationExpiresAt: undefined, name: '', devices: 0, connections: 0, members: 0, apiKeys: 0 };
