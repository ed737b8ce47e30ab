import { DomainError, type Violation } from '../../kernel/errors';
import { normalizeId } from '../../kernel/ids';
import { ApiKeyRejectedError, type Principal } from '../../kernel/principal';
import type { MethodDescriptor } from '../descriptors/descriptors';
import type { ActiveCall } from './activeCall';

/** Throws insufficient_scope, admin_key_required unless the key may call the method. */
export function assertScope(descriptor: MethodDescriptor, principal: Principal): void {
  if (descriptor.scope !== 'any' && !principal.scopes.has(descriptor.scope))
    throw insufficientScope(
      descriptor,
      principal,
      `the API key, or the role of its owner, does not have the scope ${descriptor.scope}: use a key that has it`,
    );
  if (descriptor.adminOnly && !principal.isAdmin)
    throw new ApiKeyRejectedError(
      principal,
      'permission_denied',
      'admin_key_required',
      'this method requires an admin key: create one on the server with "plantroom keys create --admin"',
    );
  requireUnrestricted(descriptor, principal);
}

/** Throws insufficient_scope if the key is restricted and the method does not allow restricted keys. */
function requireUnrestricted(descriptor: MethodDescriptor, principal: Principal): void {
  const { resourceScope: scope } = principal;
  if (scope?.devices && descriptor.restrictedKeys.devices === 'refused')
    throw insufficientScope(
      descriptor,
      principal,
      'the API key is restricted to some devices, and this method concerns the whole organization: use a key without that restriction',
    );
  if (scope?.commands && descriptor.restrictedKeys.commands === 'refused')
    throw insufficientScope(
      descriptor,
      principal,
      'the API key may only read and execute some commands: use a key without that restriction',
    );
}

/** Creates the error for a key that may not call the method. The metadata contains the required scope. */
function insufficientScope(descriptor: MethodDescriptor, principal: Principal, message: string): ApiKeyRejectedError {
  return new ApiKeyRejectedError(principal, 'permission_denied', 'insufficient_scope', message, {
    metadata: { required_scope: descriptor.scope },
  });
}

/**
 * Sets the principal and the organization of a call. `namedOrganizations`: the organizations in the headers of the call
 * and the query of an HTTP request; `mustBeNamed`: whether there must be one, as for a stream: other calls may name it
 * in their message, which bindOrganization checks later. Throws organization_mismatch, organization_required.
 */
export function bindPrincipal(
  call: ActiveCall,
  principal: Principal,
  namedOrganizations: readonly string[],
  mustBeNamed: boolean,
): void {
  call.principal = principal;
  call.organizationId = principal.organizationId;
  for (const organization of namedOrganizations) requireSameOrganization(principal, organization);
  call.isOrganizationNamed = namedOrganizations.length > 0;
  if (mustBeNamed && namedOrganizations.length === 0) throw organizationRequired();
}

/**
 * Checks the organization in the request message. A call must name its organization there or in its headers, so that a
 * client notices that it uses the key of another one. If the field could not be decoded, its violation in
 * `decodeViolations` is the error. Throws organization_required, organization_mismatch.
 */
export function bindOrganization(
  call: ActiveCall,
  descriptor: MethodDescriptor,
  request: unknown,
  decodeViolations: readonly Violation[],
): void {
  if (descriptor.scope === 'none') return;
  const namedOrganization = descriptor.namesOrganization
    ? (request as { organizationId?: string }).organizationId
    : undefined;
  if (namedOrganization) requireSameOrganization(call.principal, namedOrganization);
  else if (!call.isOrganizationNamed && !decodeViolations.some(({ field }) => field === 'organizationId'))
    throw organizationRequired();
}

/** Throws organization_mismatch unless the named organization is that of the key. */
function requireSameOrganization(principal: Principal, organization: string): void {
  if (normalizeId(organization) === principal.organizationId) return;
  throw new DomainError(
    'unauthenticated',
    'organization_mismatch',
    'the call names an organization other than that of the API key: use the organization of the key in the header and in the request',
  );
}

/** Creates the error for a call that names no organization. */
function organizationRequired(): DomainError {
  return new DomainError(
    'unauthenticated',
    'organization_required',
    'missing organization: send its id in the header x-organization-id (required for streams) or in the request field organization_id (JSON and query: organizationId)',
  );
}
