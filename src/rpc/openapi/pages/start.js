// The page at /docs: shows /openapi.json, and asks nobody else.
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#page',
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 3,
  defaultModelRendering: 'example',
  displayOperationId: true,
  displayRequestDuration: true,
  filter: true,
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  onComplete: closeGrpcPaths,
});

// They are the other operations once more, so they begin closed.
function closeGrpcPaths() {
  const tag = document.querySelector('#operations-tag-gRPC_paths');
  const isAskedFor = location.hash.startsWith('#/gRPC');
  if (tag && !isAskedFor && tag.getAttribute('data-is-open') === 'true') tag.click();
}
