import type {
  CreateSensorTemplateRequest,
  SensorTemplateServiceServer,
  UpdateSensorTemplateRequest,
} from '../gen/sensor_template/v2/sensor_template_service';
import type { Violation } from '../kernel/errors';
import { getPageInMemory, type Cursors } from '../kernel/pages';
import { withCheck, type HandlersOf, type References } from '../api/pipeline/handlers';
import type { NormalizedKeyService } from './normalizedKeyService';
import type { ValueType } from './sensorTemplate';
import { keyToMessage, listedKeyToMessage, listedTemplateToMessage, templateToMessage } from './sensorTemplateMessages';
import type { SensorTemplateService } from './sensorTemplateService';
import { UNITS, checkUnit } from './units';

/** Maps gRPC requests to SensorTemplateService and NormalizedKeyService, and their results to responses. */
export function sensorTemplateHandlers(
  templates: SensorTemplateService,
  keys: NormalizedKeyService,
  cursors: Cursors,
): HandlersOf<SensorTemplateServiceServer> {
  return {
    listSensorTemplates: async (request, context) => {
      const { items, nextPageToken } = await templates.list(
        context.organizationId,
        request.pageSize,
        request.pageToken,
      );
      return { sensorTemplates: items.map(listedTemplateToMessage), nextPageToken };
    },

    getSensorTemplate: async (request, context) =>
      templateToMessage(await templates.get(context.organizationId, request.id)),

    createSensorTemplate: withCheck(
      checkRequestUnit<CreateSensorTemplateRequest>,
      async (request, context) => {
        const { keyNameId, sensorType, description, unitMeasurementId } = request;
        const fields = {
          keyNameId,
          sensorType,
          valueType: request.valueType as ValueType,
          description,
          unitMeasurementId,
        };
        return templateToMessage(await templates.create(context.organizationId, fields));
      },
      createKeyCheck(templates),
    ),

    updateSensorTemplate: withCheck(
      checkRequestUnit<UpdateSensorTemplateRequest>,
      async (request, context) => {
        const { id, keyNameId, sensorType, description, unitMeasurementId } = request;
        const fields = {
          keyNameId,
          sensorType,
          valueType: request.valueType as ValueType | undefined,
          description,
          unitMeasurementId,
        };
        return templateToMessage(await templates.update(context.organizationId, id, fields, request.etag));
      },
      createKeyCheck(templates),
    ),

    deleteSensorTemplate: async (request, context) => {
      await templates.delete(context.organizationId, request.id, request.etag);
      return {};
    },

    listNormalizedKeys: async (request, context) => {
      const { items, nextPageToken } = await keys.list(context.organizationId, request.pageSize, request.pageToken);
      return { normalizedKeys: items.map(listedKeyToMessage), nextPageToken };
    },

    getNormalizedKey: async (request, context) => keyToMessage(await keys.get(context.organizationId, request.id)),

    createNormalizedKey: async (request, context) =>
      keyToMessage(await keys.create(context.organizationId, request.name)),

    updateNormalizedKey: async (request, context) =>
      keyToMessage(await keys.rename(context.organizationId, request.id, request.name, request.etag)),

    listUnitMeasurements: async ({ pageSize, pageToken }, { organizationId }) => {
      const { items, nextPageToken } = getPageInMemory(cursors, [organizationId, 'units'], UNITS, pageSize, pageToken);
      return { unitMeasurements: [...items], nextPageToken };
    },
  };
}

function createKeyCheck(templates: SensorTemplateService): References<{ keyNameId: string }> {
  return async ({ keyNameId }, context) => await templates.checkKey(context.organizationId, keyNameId);
}

function checkRequestUnit<Request extends { unitMeasurementId?: string | undefined }>(request: Request): Violation[] {
  return checkUnit(request.unitMeasurementId);
}
