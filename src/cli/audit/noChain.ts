import { DomainError } from '../../kernel/errors';

/** There is no chain of that name, and no organization. */
export function noChain(chain: string): DomainError {
  const message = chain === '' ? 'nothing has happened yet that belongs to no organization, so there is no chain of it' : `there is no audit trail of an organization ${JSON.stringify(chain)}; "plantroom audit head" lists those that there are`;
  return new DomainError('not_found', 'organization_not_found', message, { metadata: { organization_id: chain } });
}
