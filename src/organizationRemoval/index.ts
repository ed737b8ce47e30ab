export { OrganizationRemoval } from './organizationRemoval';
export { createRemovalSteps, type RemovalStep } from './removalSteps';
