import type { Metadata, ServiceError } from '@grpc/grpc-js';
import type {
  AddMemberRequest,
  CreateRoleRequest,
  DeleteRoleRequest,
  DeleteRoleResponse,
  GetMemberRequest,
  ListMembersRequest,
  ListMembersResponse,
  ListRolesRequest,
  ListRolesResponse,
  Member,
  RemoveMemberRequest,
  RemoveMemberResponse,
  Role,
  UpdateMemberRequest,
  UpdateRoleRequest,
} from '../../src/gen/organization_access_control/access_control_service';
import type { GrantingPrincipal } from '../../src/access';
import { SCOPES } from '../../src/kernel/scopes';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import type { AccessFixture } from './accessFixture';

/** Holds all permissions, as the command line does. */
export const ALL_PERMISSIONS: GrantingPrincipal = { scopes: new Set(SCOPES), isOwner: true, isAdmin: true };

/**
 * A gRPC method, called with the first key, another key or given headers. `.fails` resolves with the error that the
 * client gets.
 */
export interface Method<Request, Response> {
  (request?: Partial<Request>, as?: string | Record<string, string>): Promise<Response>;
  fails(request?: Partial<Request>, as?: string | Record<string, string>): Promise<GrpcErrorInfo>;
}

type Unary<Request, Response> = (
  request: Request,
  metadata: Metadata,
  callback: (error: ServiceError | null, response: Response) => void,
) => unknown;

/** The methods of members and roles. */
export interface PeopleCalls {
  readonly listMembers: Method<ListMembersRequest, ListMembersResponse>;
  readonly getMember: Method<GetMemberRequest, Member>;
  readonly addMember: Method<AddMemberRequest, Member>;
  readonly updateMember: Method<UpdateMemberRequest, Member>;
  readonly removeMember: Method<RemoveMemberRequest, RemoveMemberResponse>;
  readonly listRoles: Method<ListRolesRequest, ListRolesResponse>;
  readonly createRole: Method<CreateRoleRequest, Role>;
  readonly updateRole: Method<UpdateRoleRequest, Role>;
  readonly deleteRole: Method<DeleteRoleRequest, DeleteRoleResponse>;
  /**
   * Creates a member of the first organization with a key. The key can do what both the role and these scopes (by
   * default all) hold.
   */
  addPerson(roleId: string, scopes?: readonly string[]): Promise<{ readonly userId: string; readonly key: string }>;
}

/** Binds the methods to a fixture. */
export function peopleCalls(fixture: AccessFixture): PeopleCalls {
  const { client } = fixture;
  const buildHeaders = (as: string | Record<string, string> | undefined): Record<string, string> =>
    typeof as === 'object' ? as : fixture.as(as);
  const method = <Request, Response>(unary: Unary<Request, Response>, rest: Request): Method<Request, Response> => {
    const answers = async (request: Partial<Request> = {}, as?: string | Record<string, string>): Promise<Response> =>
      await call<Request, Response>(unary, { ...rest, ...request }, buildHeaders(as));
    const fails = async (
      request: Partial<Request> = {},
      as?: string | Record<string, string>,
    ): Promise<GrpcErrorInfo> => await callFails<Request, Response>(unary, { ...rest, ...request }, buildHeaders(as));
    return Object.assign(answers, { fails });
  };
  return {
    listMembers: method<ListMembersRequest, ListMembersResponse>(client.listMembers.bind(client), {
      organizationId: '',
      pageSize: undefined,
      pageToken: '',
    }),
    getMember: method<GetMemberRequest, Member>(client.getMember.bind(client), { organizationId: '', userId: '' }),
    addMember: method<AddMemberRequest, Member>(client.addMember.bind(client), {
      organizationId: '',
      userId: '',
      name: undefined,
      email: '',
      roleId: 'viewer',
    }),
    updateMember: method<UpdateMemberRequest, Member>(client.updateMember.bind(client), {
      organizationId: '',
      userId: '',
      roleId: 'viewer',
      etag: undefined,
    }),
    removeMember: method<RemoveMemberRequest, RemoveMemberResponse>(client.removeMember.bind(client), {
      organizationId: '',
      userId: '',
    }),
    listRoles: method<ListRolesRequest, ListRolesResponse>(client.listRoles.bind(client), {
      organizationId: '',
      pageSize: undefined,
      pageToken: '',
    }),
    createRole: method<CreateRoleRequest, Role>(client.createRole.bind(client), {
      organizationId: '',
      name: 'Role',
      description: '',
      scopes: ['devices:read'],
    }),
    updateRole: method<UpdateRoleRequest, Role>(client.updateRole.bind(client), {
      organizationId: '',
      id: '',
      name: undefined,
      description: undefined,
      scopes: [],
      etag: undefined,
    }),
    deleteRole: method<DeleteRoleRequest, DeleteRoleResponse>(client.deleteRole.bind(client), {
      organizationId: '',
      id: '',
    }),
    addPerson: async (roleId, scopes = SCOPES) => {
      const { userId, scopes: held } = await fixture.members.add(ALL_PERMISSIONS, fixture.first.organization.id, {
        userId: '',
        name: `A ${roleId}`,
        email: '',
        roleId,
      });
      const keyScopes = scopes.filter((scope) => held.includes(scope));
      const { key } = await fixture.createKey({
        ownerUserId: userId,
        scopes: keyScopes,
        allConnections: keyScopes.includes('gateways:write'),
      });
      return { userId, key };
    },
  };
}
