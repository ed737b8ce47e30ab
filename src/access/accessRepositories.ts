import type { Db } from '../database';
import { ApiKeyRepository } from './keys/apiKeyRepository';
import { KnownKeyRepository } from './keys/knownKeyRepository';
import { OrganizationRemovalRepository } from './organizations/organizationRemovalRepository';
import { OrganizationRepository } from './organizations/organizationRepository';
import { SettingsRepository } from './settingsRepository';
import { MemberRepository } from './people/memberRepository';
import { RoleRepository } from './people/roleRepository';
import { UserRepository } from './people/userRepository';

/** The repositories of the access module. */
export interface AccessRepositories {
  readonly organizations: OrganizationRepository;
  readonly organizationRemoval: OrganizationRemovalRepository;
  readonly users: UserRepository;
  readonly members: MemberRepository;
  readonly roles: RoleRepository;
  readonly apiKeys: ApiKeyRepository;
  readonly knownKeys: KnownKeyRepository;
  readonly settings: SettingsRepository;
}

/**
 * Creates the repositories for a connection or a transaction; use it as `new UnitOfWork(database,
 * createAccessRepositories)`.
 */
export function createAccessRepositories(db: Db): AccessRepositories {
  return {
    organizations: new OrganizationRepository(db),
    organizationRemoval: new OrganizationRemovalRepository(db),
    users: new UserRepository(db),
    members: new MemberRepository(db),
    roles: new RoleRepository(db),
    apiKeys: new ApiKeyRepository(db),
    knownKeys: new KnownKeyRepository(db),
    settings: new SettingsRepository(db),
  };
}
