import { DomainError } from '../../kernel/errors';

/**
 * Creates the error for an audit chain that does not exist. `chain`: the id of its organization; empty for the chain of
 * the events without an organization.
 */
export function auditChainNotFound(chain: string): DomainError {
  const message =
    chain === ''
      ? 'there are no events without an organization yet, so this chain does not exist'
      : `no audit trail of an organization ${JSON.stringify(chain)}: run "plantroom audit head" to list all chains`;
  return new DomainError('not_found', 'organization_not_found', message, { metadata: { organization_id: chain } });
}
