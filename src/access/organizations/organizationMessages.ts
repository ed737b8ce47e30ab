import type {
  DeleteOrganizationResponse,
  ListOrganizationsResponse,
  Organization as OrganizationMessage,
} from '../../gen/organizations_service';
import { getEtag } from '../../kernel/etags';
import { toTimestamp } from '../../kernel/timestamps';
import type { Organization } from './organization';
import type { DeletionOffer } from './organizationDeletion';
import type { OrganizationPage } from './organizationService';

/** Converts an organization to its message. */
export function organizationToMessage(organization: Organization): OrganizationMessage {
  return {
    id: organization.id,
    name: organization.name,
    createdAt: toTimestamp(organization.createdAt),
    updatedAt: toTimestamp(organization.updatedAt),
    readingRetentionDays: organization.readingRetentionDays,
    downsampleAfterDays: organization.downsampleAfterDays ?? 0,
    etag: getEtag(organization.revision),
  };
}

/** Converts a page of organizations to its message. */
export function organizationPageToMessage({
  organizations,
  nextPageToken,
}: OrganizationPage): ListOrganizationsResponse {
  return { organizations: organizations.map(organizationToMessage), nextPageToken };
}

/** Converts the response of the first step of a deletion to its message. */
export function deletionOfferToMessage({
  organization,
  confirmation,
  expiresAt,
  devices,
  connections,
  members,
  apiKeys,
}: DeletionOffer): DeleteOrganizationResponse {
  return {
    deleted: false,
    confirmation,
    confirmationExpiresAt: toTimestamp(expiresAt),
    name: organization.name,
    devices,
    connections,
    members,
    apiKeys,
  };
}

/** The response of the second step. */
export const DELETED: DeleteOrganizationResponse = {
  deleted: true,
  confirmation: '',
  confirmationExpiresAt: undefined,
  name: '',
  devices: 0,
  connections: 0,
  members: 0,
  apiKeys: 0,
};
