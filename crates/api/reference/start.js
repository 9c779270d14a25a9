// Shows the document of the instance that this page is from. A key that is entered stays in the memory of the page.
window.reference = SwaggerUIBundle({
  url: "../api/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  // Parts first, and within them the order of the document.
  docExpansion: "none",
  filter: true,
  defaultModelsExpandDepth: 0,
  displayOperationId: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  // Nothing is sent to anybody else.
  validatorUrl: null,
});
